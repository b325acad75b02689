import { expect, it } from 'vitest';
import { loadDriver } from '../../../src/store/sqlite/driver.js';
import { seriousProblems } from '../../support/browser.js';
import type { DashboardScene } from './scene.js';

const pages = [
  ...['', 'calls', 'try', 'endpoints', 'endpoints/new', 'numbers', 'numbers/new', 'trunks', 'trunks/new', 'deliveries'],
  ...[
    'organization',
    'members',
    'members/new',
    'keys',
    'reference',
    'reference/listCalls',
    'reference/events',
    'nowhere',
  ],
];

/** Axe on all pages is much work for a machine that has other work. */
const axeLimitMs = 180_000;

export function everyPage(scene: DashboardScene): void {
  const demo = async () =>
    (await scene.app.api<{ data: { id: string }[] }>('GET', '/v1/phone-numbers')).data[0]?.id ?? '';
  const first = async (path: string) =>
    (await scene.app.api<{ data: { id: string }[] }>('GET', path)).data[0]?.id ?? '';

  it.each([
    [390, 'light'],
    [1280, 'dark'],
  ] as const)(
    'is in order for axe at %i pixels, %s, and by keyboard',
    async (width, scheme) => {
      const page = await scene.open('', { width, scheme });
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
      const before = await focused();
      await page.keyboard.press('Tab');
      expect(await focused()).not.toBe(before);
    },
    axeLimitMs,
  );

  it('finds and tries operations in the reference', async () => {
    const page = await scene.open('reference');
    await page.getByLabel('Search').fill('ledger');
    await page.getByRole('navigation', { name: 'Reference' }).getByRole('link').first().waitFor();
    await page.getByLabel('Search').fill('own profile nothing');
    await page.getByText('Nothing has these words').waitFor();
    await page.getByLabel('Search').fill('GET /v1/calls/search');
    await page.getByRole('link', { name: /Search calls/ }).click();
    await page.getByLabel('status').fill('failed');
    const samples = (await page.locator('.sample').allTextContents()).join('\n');
    expect(samples).toContain("/v1/calls/search?status=failed'");
    expect(samples).toContain('URLSearchParams({ "status": "failed" })');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('status').getByText('"next_cursor"').waitFor();
    await page.evaluate("location.hash = '#/reference/events'");
    await page.getByRole('cell', { name: 'turn.completed', exact: true }).waitFor();
    await page.evaluate("location.hash = '#/reference/receiveCall'");
    await page.getByText('What your server answers').waitFor();
  });

  it(
    'finds operations on the page without a session, too',
    async () => {
      const page = await scene.open('', { signedIn: false, width: 390, scheme: 'dark' });
      await page.goto(`${scene.app.httpUrl}/docs`);
      const shown = () => page.locator('article:visible').count();
      const all = await shown();
      expect(all).toBeGreaterThan(60);
      await page.getByLabel('Search').fill('ledger balance');
      await expect.poll(shown).toBeLessThan(all / 4);
      expect(await shown()).toBeGreaterThan(0);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      // What is hidden is not examined, but costs time.
      await page.evaluate('for (const each of document.querySelectorAll("[hidden]")) each.remove()');
      expect(await seriousProblems(page)).toEqual([]);
    },
    axeLimitMs,
  );

  it('shows texts of strangers, and they do nothing', async () => {
    const { app } = scene;
    const script = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
    const reversed = '\u202egnp.exe\u202c\u001b[31mred\u0000';
    const long = 'x'.repeat(10_240);
    const hostile = `${script}${reversed}${long}`;
    const call = { direction: 'inbound', phoneNumberId: await demo(), endpointId: null } as const;
    const id = app.store.calls.begin({
      ...{ ...scene.scope(), ...call, fromNumber: script, toNumber: `${reversed}${long}`, sipCallId: long },
      metadata: { note: hostile },
    });
    app.store.calls.event(id, 'agent.failed', {
      ...{ endpoint_id: '0198c0de-0000-7000-8000-000000000000', message: hostile, reason: 'lost' },
    });
    app.store.calls.finish(id, {
      ...{ status: 'failed', hangupCause: 'agent_error', hangupSource: 'agent', durationSec: 1 },
      transcript: `caller: ${hostile}`,
      trace: [
        {
          ...{ at: new Date().toISOString(), direction: 'received', peer: null },
          message: `INVITE ${script} SIP/2.0\r\n${hostile}`,
        },
      ],
    });
    await app.store.calls.flush();
    // The API refuses such names; an older version, or a provider of identities, may not have.
    const database = new (loadDriver())(app.databaseFile);
    for (const table of ['endpoints', 'trunks', 'api_keys', 'organizations', 'users', 'phone_numbers'])
      database.prepare(`update ${table} set name = ?`).run(hostile);
    database.prepare('update webhook_attempts set error = ?').run(hostile);
    database.exec('update settings_version set version = version + 1');
    database.close();
    const records = await Promise.all(
      ['endpoints', 'phone-numbers', 'trunks'].map(
        async (name) => `${name === 'phone-numbers' ? 'numbers' : name}/${await first(`/v1/${name}`)}`,
      ),
    );
    const page = await scene.open('', { width: 390 });
    const visited = ['calls', `calls/${id}`, ...records, ...pages.filter((place) => !/^(reference|calls)/.test(place))];
    for (const place of visited) {
      await page.evaluate(`location.hash = '#/${place}'`);
      await page.locator('main h1').waitFor();
      await page.getByText('Loading…').waitFor({ state: 'detached' });
      expect(await page.evaluate('window.hacked'), place).toBeUndefined();
      expect(await page.evaluate('document.querySelectorAll("img, main script").length'), place).toBe(0);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), place).toBe(true);
      const text = (await page.locator('body').textContent()) ?? '';
      for (const character of ['\u202e', '\u001b', '\u0000']) expect(text.includes(character), place).toBe(false);
      expect(text, place).toContain('<img src=x');
    }
    await page.evaluate(`location.hash = '#/calls/${id}'`);
    await page.getByText('⟨U+202E⟩').first().waitFor();
    expect(await seriousProblems(page)).toEqual([]);
  });

  it('with a long list has few rows, and all of them on the way down', async () => {
    const { app } = scene;
    const numbers = { fromNumber: '+12025550188', toNumber: scene.echoNumber };
    const call = { direction: 'inbound', phoneNumberId: await demo(), endpointId: null, ...numbers } as const;
    for (let n = 0; n < 450; n += 1) {
      const id = app.store.calls.begin({ ...scene.scope(), ...call });
      const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller' } as const;
      app.store.calls.finish(id, { ...end, durationSec: n });
    }
    await app.store.calls.flush();
    for (let n = 0; n < 130; n += 1) await app.api('POST', '/v1/trunks', { name: `Trunk ${n}`, status: 'inactive' });
    const page = await scene.open('calls?number=%2B12025550188');
    const wholeList = async (table: string, oldest: string) => {
      await page.locator(`${table} tbody tr`).nth(20).waitFor();
      const rows = () => page.locator(`${table} tbody tr`).count();
      expect(await rows()).toBeLessThan(80);
      await expect
        .poll(async () => {
          await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
          return page.getByRole('cell', { name: oldest, exact: true }).count();
        })
        .toBe(1);
      expect(await rows()).toBeLessThan(80);
    };
    await wholeList('.calls', '0:00'); // the first that was made
    expect(page.url()).toContain('number=%2B12025550188');
    await page.evaluate("location.hash = '#/trunks'");
    await page.getByRole('heading', { level: 1, name: 'Trunks' }).waitFor();
    await wholeList('.fixed', 'Trunk 0');
  });
}
