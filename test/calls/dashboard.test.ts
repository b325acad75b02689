import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { openBrowser, openPage, seriousProblems } from '../support/browser.js';

/** The dashboard in a browser, on a whole Trunkline: real calls, real pages. */

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

const echoNumber = '+15550100';
const place = (body: object) => app.api('POST', '/v1/simulator/calls', { to: echoNumber, ...body });

describe('signing in', () => {
  it('takes a key that works, keeps it out of the URL, and forgets it at the end', async () => {
    const { page, complaints, strangers } = await openPage(browser, app.httpUrl);
    await page.goto(`${app.httpUrl}/`);
    await page.getByLabel('API key').fill('trunkline_live_wrong');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('A valid API key is required');
    await page.getByLabel('API key').fill(app.key);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: /No call is live/ }).waitFor();
    expect(page.url()).not.toContain(app.key);
    expect(await page.evaluate('Object.values(localStorage)')).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    expect(await page.evaluate('Object.values(sessionStorage)')).toEqual([]);
    expect(complaints).toEqual([]);
    expect(strangers).toEqual([]);
    await page.context().close();
  });
});

describe('a call', () => {
  it('is seen live, explained, heard and deleted', async () => {
    const echo = (await app.api<{ data: { id: string; name: string }[] }>('GET', '/v1/endpoints')).data[0];
    await app.api('PATCH', `/v1/endpoints/${echo?.id}`, { record: true });
    const { page, complaints, strangers } = await openPage(browser, app.httpUrl, { key: app.key });
    await page.goto(`${app.httpUrl}/`);
    await page.getByText('Nothing is ringing or talking').waitFor();
    const caller = '+12025550177';
    const over = place({ from: caller, duration_ms: 4_000 });
    await page.getByRole('link', { name: caller }).click(); // it appears by itself
    await page.getByRole('button', { name: 'Hang up' }).waitFor();
    await over;
    await page.getByText('the caller hung up.').waitFor();
    await page.getByRole('button', { name: 'Play', exact: true }).click();
    await expect
      .poll(async () => Number(await page.locator('[data-position]').getAttribute('data-position')))
      .toBeGreaterThan(0.3);
    const invite = page.getByRole('button', { name: /Received from .*: INVITE/ });
    await invite.click();
    await page.locator('.ladder pre').getByText(`<sip:${echoNumber}@`).first().waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    const warning = page.getByRole('dialog', { name: 'Delete this call?' });
    expect(await warning.textContent()).toContain('its recording');
    await warning.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No calls yet').waitFor();
    expect(await app.api('GET', '/v1/calls')).toMatchObject({ total: 0 });
    expect(complaints).toEqual([]);
    expect(strangers).toEqual([]);
    await page.context().close();
  });

  it('that failed says why, and which hop is to blame', async () => {
    await app.connectNumber('+12025550123', 'ws://127.0.0.1:9/none', { protocol: 'raw' });
    await place({ to: '+12025550123', from: '+12025550178', duration_ms: 500 });
    const { page, complaints } = await openPage(browser, app.httpUrl, { key: app.key, width: 390, scheme: 'dark' });
    await page.goto(`${app.httpUrl}/`);
    const failures = page.locator('.failures');
    await failures.getByText('the agent could not be reached').waitFor();
    expect(await failures.locator('.hop').textContent()).toBe('Agent');
    expect(await seriousProblems(page)).toEqual([]);
    await page.goto(`${app.httpUrl}/#/calls?status=failed`);
    await page
      .getByRole('link')
      .filter({ has: page.locator('time') })
      .first()
      .click();
    await page.getByText('Test the endpoint').waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    // Nothing is wider than the window.
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
