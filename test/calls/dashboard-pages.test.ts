import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { openBrowser, openPage, seriousProblems } from '../support/browser.js';

/** Forms, trials, deliveries, long lists and hostile texts, in a browser. */

let app: TestApp;
let browser: Browser;
beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  browser = await openBrowser();
});
afterAll(async () => {
  await browser?.close();
  await app?.end();
});

const scope = () => ({ organizationId: app.first?.organizationId ?? '', mode: 'live' as const });
const pages = [
  '',
  'calls',
  'try',
  'endpoints',
  'endpoints/new',
  'numbers',
  'numbers/new',
  'trunks',
  'trunks/new',
  'deliveries',
  'organization',
  'members',
  'keys',
  'reference',
  'reference/listCalls',
];

describe('forms', () => {
  it('make an endpoint and a number, test them, and call them from the page', async () => {
    const { page, complaints, strangers } = await openPage(browser, app.httpUrl, { key: app.key });
    await page.goto(`${app.httpUrl}/#/endpoints/new`);
    await page.getByLabel('Name').fill('Nobody');
    await page.getByLabel('Target').fill('http://wrong.example.com');
    await page.getByRole('button', { name: 'Create the endpoint' }).click();
    await page.getByRole('alert').waitFor(); // the refusal names the field
    expect(await page.getByLabel('Target').getAttribute('aria-invalid')).toBe('true');
    await page.getByLabel('Target').fill('ws://127.0.0.1:9/agent');
    await page.getByLabel('Protocol').selectOption('raw');
    await page.getByLabel('Auth token').fill('a secret');
    await page.getByRole('button', { name: 'Create the endpoint' }).click();
    await page.getByRole('heading', { level: 1, name: 'Nobody' }).waitFor();
    expect(await page.getByLabel('Auth token').inputValue()).toBe(''); // never shown again
    await page.getByRole('button', { name: 'Test the endpoint' }).click();
    await page.getByText('It cannot be reached as it is.').waitFor();
    await page.getByLabel('Name').fill('Still nobody');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { level: 1, name: 'Still nobody' }).waitFor();

    await page.goto(`${app.httpUrl}/#/numbers/new`);
    await page.getByLabel('Number', { exact: false }).first().fill('+12025550150');
    await page.getByLabel('Endpoint id', { exact: true }).selectOption({ label: 'Echo' });
    await page.getByRole('button', { name: 'Create the number' }).click();
    await page.getByRole('heading', { level: 1, name: '+12025550150' }).waitFor();
    await page.getByRole('button', { name: 'Show the way' }).click();
    await page.getByText('Connects').waitFor();

    await page.getByRole('link', { name: 'Call this number' }).click();
    await page.getByLabel('The caller').selectOption('tone');
    await page.getByLabel(/^Length/).fill('4');
    await page.getByLabel(/^Packets lost/).fill('2');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText('Talking').waitFor();
    await expect.poll(() => page.locator('.meter[data-speaker="agent"]').getAttribute('style')).toMatch(/width: [1-9]/);
    await page.getByRole('heading', { name: 'Result' }).waitFor();
    const echo = page
      .getByRole('row', { name: /Echo there and back/ })
      .getByRole('cell')
      .first();
    expect(Number.parseInt((await echo.textContent()) ?? '', 10)).toBeGreaterThan(20);
    await page.getByRole('link', { name: 'Its record' }).click();
    await page.getByText('the caller hung up.').waitFor();
    expect(complaints).toEqual([]);
    expect(strangers).toEqual([]);
    await page.context().close();
  });

  it('show a new key once', async () => {
    const { page } = await openPage(browser, app.httpUrl, { key: app.key });
    await page.goto(`${app.httpUrl}/#/keys/new`);
    await page.getByLabel('Name').fill('For a program');
    await page.getByRole('button', { name: 'Create the key' }).click();
    const key = (await page.locator('.secret').textContent()) ?? '';
    expect(key).toMatch(/^trunkline_live_\w{32}$/);
    await page.getByRole('link', { name: 'I have it' }).click();
    await page.getByText('For a program').waitFor();
    expect(await page.content()).not.toContain(key);
    await page.context().close();
  });
});

describe('deliveries', () => {
  it('that failed are sent again', async () => {
    await app.api('POST', '/v1/endpoints', {
      ...{ name: 'Hook', type: 'webhook', target: 'http://127.0.0.1:9/calls' },
      provider_config: { events_url: 'http://127.0.0.1:9/events' },
    });
    const hook = (await app.api<{ data: { id: string }[] }>('GET', '/v1/endpoints')).data[0]?.id ?? '';
    const number = { number: '+12025550151', endpoint_id: hook };
    const { id: phoneNumberId } = await app.api<{ id: string }>('POST', '/v1/phone-numbers', number);
    const call = { direction: 'inbound', fromNumber: '+12025550179', toNumber: number.number } as const;
    const callId = app.store.calls.begin({ ...scope(), ...call, phoneNumberId, endpointId: hook });
    app.store.calls.finish(callId, {
      status: 'failed',
      hangupCause: 'webhook_error',
      hangupSource: 'system',
      durationSec: 0,
    });
    app.store.calls.flush();
    const attempts = async () =>
      (
        await app.api<{ data: { attempts: unknown[] }[] }>('GET', `/v1/webhook-deliveries?call_id=${callId}`)
      ).data.reduce((sum, each) => sum + each.attempts.length, 0);
    await expect.poll(attempts).toBeGreaterThan(0);
    const before = await attempts();
    const { page } = await openPage(browser, app.httpUrl, { key: app.key });
    await page.goto(`${app.httpUrl}/#/deliveries`);
    await page.getByRole('button', { name: 'Send again' }).last().click();
    await page.getByText('It is sent again now.').waitFor();
    await expect.poll(attempts).toBeGreaterThan(before);
    await page.context().close();
  });
});

describe('texts of strangers', () => {
  const script = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
  const reversed = '\u202egnp.exe\u202c\u001b[31mred\u0000';
  const long = 'x'.repeat(10_240);

  it('are shown, and do nothing', async () => {
    const demo = (await app.api<{ data: { id: string }[] }>('GET', '/v1/phone-numbers')).data[0]?.id ?? '';
    const call = { direction: 'inbound', phoneNumberId: demo, endpointId: null } as const;
    const id = app.store.calls.begin({
      ...scope(),
      ...call,
      fromNumber: script,
      toNumber: `${reversed}${long}`,
      sipCallId: long,
    });
    app.store.calls.event(id, 'agent.failed', { message: `${script}${reversed}`, reason: 'lost' });
    app.store.calls.finish(id, {
      ...{ status: 'failed', hangupCause: 'agent_error', hangupSource: 'agent', durationSec: 1 },
      transcript: `caller: ${script}`,
      trace: [
        {
          at: new Date().toISOString(),
          direction: 'received',
          peer: null,
          message: `INVITE ${script} SIP/2.0\r\n${reversed}`,
        },
      ],
    });
    app.store.calls.flush();
    const { page, complaints } = await openPage(browser, app.httpUrl, { key: app.key, width: 390 });
    for (const place of ['', 'calls', `calls/${id}`]) {
      await page.goto(`${app.httpUrl}/#/${place}`);
      await page.getByText('<img src=x').first().waitFor();
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), place).toBe(true);
      const text = await page.locator('main').innerText();
      for (const character of ['\u202e', '\u001b', '\u0000']) expect(text).not.toContain(character);
      expect(text).toContain('⟨U+202E⟩');
    }
    expect(await seriousProblems(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});

describe('a long list', () => {
  it('has few rows in the page, and all of them on the way down', async () => {
    const demo = (await app.api<{ data: { id: string }[] }>('GET', '/v1/phone-numbers')).data[0]?.id ?? '';
    const call = {
      direction: 'inbound',
      phoneNumberId: demo,
      endpointId: null,
      fromNumber: '+12025550188',
      toNumber: '+15550100',
    } as const;
    for (let n = 0; n < 450; n += 1) {
      const id = app.store.calls.begin({ ...scope(), ...call });
      app.store.calls.finish(id, {
        status: 'completed',
        hangupCause: 'normal_clearing',
        hangupSource: 'caller',
        durationSec: n,
      });
    }
    app.store.calls.flush();
    const { page } = await openPage(browser, app.httpUrl, { key: app.key });
    await page.goto(`${app.httpUrl}/#/calls?number=%2B12025550188`);
    await page.locator('.calls tbody tr').nth(20).waitFor();
    const rows = () => page.locator('.calls tbody tr').count();
    expect(await rows()).toBeLessThan(80);
    const oldest = page.getByRole('cell', { name: '0:00', exact: true }); // the first that was made
    await expect
      .poll(async () => {
        await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
        return oldest.count();
      })
      .toBe(1);
    expect(await rows()).toBeLessThan(80);
    expect(page.url()).toContain('number=%2B12025550188');
    await page.context().close();
  });
});

describe('every page', () => {
  for (const [width, scheme] of [
    [390, 'light'],
    [1280, 'dark'],
  ] as const)
    it(`is in order for axe at ${width} pixels, ${scheme}, and by keyboard`, async () => {
      const { page, complaints, strangers } = await openPage(browser, app.httpUrl, { key: app.key, width, scheme });
      await page.goto(`${app.httpUrl}/`);
      for (const place of pages) {
        await page.evaluate(`location.hash = '#/${place}'`);
        await page.locator('main h1').waitFor();
        await page.getByText('Loading…').waitFor({ state: 'detached' });
        expect(await seriousProblems(page), place).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), place).toBe(true);
      }
      await page.evaluate("location.hash = '#/calls'");
      await page.locator('main h1').waitFor();
      await page.keyboard.press('Tab');
      const focused = () => page.evaluate('document.activeElement.outerHTML.slice(0, 80)');
      const first = await focused();
      await page.keyboard.press('Tab');
      expect(await focused()).not.toBe(first);
      expect(complaints).toEqual([]);
      expect(strangers).toEqual([]);
      await page.context().close();
    });
});
