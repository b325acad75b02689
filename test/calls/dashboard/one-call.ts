import { readFileSync } from 'node:fs';
import type { Download, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { tone } from '../../../media/audio/dsp/tone.js';
import { seriousProblems } from '../../support/browser.js';
import { startScriptedAgent } from '../../support/scripted-agent.js';
import { webhookApp } from '../../support/webhook-app.js';
import type { DashboardScene } from './scene.js';

interface Record {
  status: string;
  hangup_cause: string;
  hangup_source: string;
  events: { event_type: string; event_data: { [field: string]: unknown } }[];
}

export function oneCall(scene: DashboardScene): void {
  const recordOf = (id: string) => scene.app.api<Record>('GET', `/v1/calls/${id}`);
  const idOf = (page: Page) => new URL(page.url()).hash.split('/').at(-1) ?? '';
  const saved = async (page: Page, button: string): Promise<Buffer> => {
    const [download] = await Promise.all([
      page.waitForEvent('download') as Promise<Download>,
      page.getByRole('button', { name: button, exact: true }).click(),
    ]);
    return readFileSync(await download.path());
  };
  const position = async (page: Page) => Number(await page.locator('[data-position]').getAttribute('data-position'));

  it('is seen live, explained, heard, saved and deleted', async () => {
    const { app } = scene;
    const echo = (await app.api<{ data: { id: string; name: string }[] }>('GET', '/v1/endpoints')).data[0];
    await app.api('PATCH', `/v1/endpoints/${echo?.id}`, { record: true });
    const page = await scene.open('');
    await page.getByText('Nothing is ringing or talking').waitFor();
    const caller = '+12025550177';
    const over = scene.place({ from: caller, duration_ms: 4_000 });
    await page.getByRole('link', { name: caller }).click(); // it appears by itself
    await page.getByRole('button', { name: 'Hang up' }).waitFor();
    const now = page.getByRole('region', { name: 'What happens now' });
    await now.getByText('Talking with').waitFor();
    await now.getByRole('link', { name: 'Echo' }).waitFor();
    await now.getByText('recording', { exact: true }).waitFor();
    expect(await now.textContent()).toMatch(/For \d:\d\d, since \d\d:\d\d:\d\d/);
    expect(await seriousProblems(page)).toEqual([]);
    await over;
    await page.getByText('the caller hung up.').waitFor();
    expect(await now.count()).toBe(0);
    await page.getByRole('img', { name: /^Network round trip|^Jitter/ }).waitFor(); // the delay over time
    const hop = page.getByRole('row', { name: /This server, to the agent/ });
    expect(await hop.textContent()).toMatch(/\d+ ms.*(OK|Over)/);
    await page.getByRole('button', { name: 'Play', exact: true }).click();
    await expect.poll(() => position(page)).toBeGreaterThan(0.3);
    await page.locator('.timeline li[data-now="true"]').waitFor(); // the events are in step
    const invite = page.getByRole('button', { name: /Received from .*: INVITE/ });
    await invite.click();
    await page.locator('.ladder pre').getByText(`<sip:${scene.echoNumber}@`).first().waitFor();

    const wav = await saved(page, 'Recording');
    expect([wav.toString('latin1', 0, 4), wav.length > 40_000]).toEqual(['RIFF', true]);
    const pcap = await saved(page, 'Capture (pcap)');
    expect(pcap.readUInt32LE(0)).toBe(0xa1b2c3d4);
    expect(pcap.toString('latin1')).toContain('INVITE sip:');
    const capsule = JSON.parse((await saved(page, 'Everything (JSON)')).toString());
    expect(capsule.call.id).toBe(idOf(page));

    await page.getByRole('button', { name: 'Delete' }).click();
    const warning = page.getByRole('dialog', { name: 'Delete this call?' });
    const text = await warning.textContent();
    for (const part of ['events and the SIP trace', 'turns and quality samples', 'its recording'])
      expect(text).toContain(part);
    await warning.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No calls yet').waitFor();
    expect(await app.api('GET', '/v1/calls')).toMatchObject({ total: 0 });
  });

  it('has whole numbers among the live calls on a phone', async () => {
    const page = await scene.open('', { width: 375 });
    const over = scene.place({ from: '+12025550178', duration_ms: 3_000 });
    await page.getByRole('link', { name: '+12025550178' }).waitFor();
    const lines = await page
      .locator('main tr bdi')
      .evaluateAll((all) => all.map((each) => each.getClientRects().length));
    expect(Math.max(...lines)).toBe(1);
    await over;
  });

  it('that failed says why, and which hop is to blame', async () => {
    const { app } = scene;
    await app.connectNumber('+12025550123', 'ws://127.0.0.1:9/none', { protocol: 'raw' });
    await scene.place({ to: '+12025550123', from: '+12025550178', duration_ms: 500 });
    const page = await scene.open('', { width: 390, scheme: 'dark' });
    const failures = page.locator('.failures');
    await failures.getByText('the agent could not be reached').waitFor();
    expect(await failures.locator('.hop').textContent()).toBe('Agent');
    expect(await seriousProblems(page)).toEqual([]);
    await page.goto(`${app.httpUrl}/#/calls?status=failed`);
    const first = page.getByRole('link').filter({ has: page.locator('time') });
    await first.first().click();
    await page.getByText('Test the endpoint').waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    // Nothing is wider than the window.
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  });

  it('gets keys, is transferred, and says what hindered it before', async () => {
    const page = await scene.open('');
    const stop = new AbortController();
    const over = placeUntil(scene, { from: '+12025550181' }, stop.signal);
    await page.getByRole('link', { name: '+12025550181' }).click();
    await page.getByRole('button', { name: 'Send keys' }).click();
    const keys = page.getByRole('dialog', { name: 'Send keys' });
    await keys.getByLabel('Keys').fill('12x');
    await keys.getByRole('button', { name: 'Send' }).click();
    await keys.getByRole('alert').waitFor(); // the refusal stays with the form
    await keys.getByLabel('Keys').fill('12#');
    await keys.getByRole('button', { name: 'Send' }).click();
    await keys.waitFor({ state: 'detached' });
    const id = idOf(page);
    const eventsOf = async (type: string) =>
      (await recordOf(id)).events.filter((event) => event.event_type === type).map(({ event_data }) => event_data);
    expect(await eventsOf('dtmf.sent')).toEqual([{ digits: '12#', source: 'api' }]);

    await page.getByRole('button', { name: 'Transfer' }).click();
    const transfer = page.getByRole('dialog', { name: 'Transfer this call' });
    await transfer.getByLabel('To').fill('not a number');
    await transfer.getByRole('button', { name: 'Transfer' }).click();
    await transfer.getByRole('alert').waitFor();
    await transfer.getByLabel('To').fill('+15005550150');
    await transfer.getByRole('button', { name: 'Transfer' }).click();
    await transfer.waitFor({ state: 'detached' });
    expect(await eventsOf('transfer.completed')).toEqual([
      expect.objectContaining({ to: '+15005550150', method: 'bridge' }),
    ]);
    await page.getByText('transfer.completed').waitFor(); // it is told at once
    await page.getByRole('button', { name: 'Hang up' }).click();
    await page.getByRole('button', { name: 'Delete' }).waitFor();
    stop.abort();
    await over;
    expect(await recordOf(id)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  });

  it('of a webhook is redirected, by actions and to a URL', async () => {
    const { app } = scene;
    const hook = await webhookApp(
      app,
      { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 60 }], '/end': [{ action: 'hangup' }] },
      {},
    );
    const page = await scene.open('');
    const stop = new AbortController();
    const over = placeUntil(scene, { from: '+12025550182', to: hook.number }, stop.signal);
    await page.getByRole('link', { name: '+12025550182' }).click();
    await page.getByText('call.answered').waitFor();
    const redirect = async (text: string) => {
      await page.getByRole('button', { name: 'Redirect' }).click();
      const dialog = page.getByRole('dialog', { name: 'Redirect this call' });
      await dialog.getByLabel('URL or actions').fill(text);
      await dialog.getByRole('button', { name: 'Redirect' }).click();
      return dialog;
    };
    const wrong = await redirect('[{"action":"say"');
    await wrong.getByText('The actions are not valid JSON.').waitFor();
    await wrong.getByLabel('URL or actions').fill('[{"action":"pause","seconds":1},{"action":"say"}]');
    await wrong.getByRole('button', { name: 'Redirect' }).click();
    await wrong.getByText('actions[1].text', { exact: true }).waitFor(); // the refusal names the place
    expect(await wrong.getByLabel('URL or actions').getAttribute('aria-invalid')).toBe('true');
    await wrong.getByRole('button', { name: 'Cancel' }).click();
    await (await redirect('[{"action":"dtmf","digits":"7"},{"action":"pause","seconds":60}]')).waitFor({
      state: 'detached',
    });
    const id = idOf(page);
    await expect
      .poll(async () => (await recordOf(id)).events.filter(({ event_type }) => event_type === 'dtmf.sent').length)
      .toBe(1);
    await (await redirect(`${hook.server.url}/end`)).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete' }).waitFor(); // the call is over
    stop.abort();
    await over;
    await hook.server.close();
    expect(hook.paths()).toEqual(['/start', '/end']);
    expect((await recordOf(id)).hangup_cause).toBe('normal_clearing');
  });

  it('plays from the word that is clicked', async () => {
    const { app } = scene;
    const words = 'one two three four five six seven eight nine ten';
    // Speaks for three seconds, then says what it said.
    const speak = (socket: WebSocket) => {
      socket.send(Buffer.from(tone({ frequencyHz: 440, durationMs: 3_000 }).buffer));
      socket.send(JSON.stringify({ event: 'transcript', speaker: 'agent', text: words }));
    };
    const agent = await startScriptedAgent({ onText: (message, socket) => message.event === 'start' && speak(socket) });
    const { endpointId } = await app.connectNumber('+12025550140', agent.url, { protocol: 'raw' });
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { record: true });
    await scene.place({ to: '+12025550140', from: '+12025550183', duration_ms: 4_500, speech: 'silence', digits: '5' });
    const { id } = await app.finishedCall('+12025550140');
    const page = await scene.open(`calls/${id}`);
    const word = page.getByRole('button', { name: 'seven', exact: true });
    await expect.poll(() => page.getByRole('button', { name: 'Play', exact: true }).isEnabled()).toBe(true);
    expect(await position(page)).toBe(0);
    await word.click();
    await expect.poll(() => position(page)).toBeGreaterThan(1.2); // six words of ten are before it
    expect(await position(page)).toBeLessThan(4);
    await expect.poll(() => page.locator('.word[data-now="true"]').count()).toBe(1);
    const turn = page.getByRole('button', { name: /^Play from here: agent/ });
    await turn.click();
    await expect.poll(() => position(page)).toBeLessThan(1.2);
    // The keys stand in the waveform, and play from there by keyboard.
    await page.getByRole('button', { name: 'Play from 0:00: Agent connected' }).waitFor();
    const marker = page.getByRole('button', { name: /^Play from 0:0[1-3]: Key 5 pressed/ });
    await page.getByRole('button', { name: 'Pause' }).click();
    await marker.focus();
    await page.getByRole('listitem').filter({ has: marker }).getByText('Key 5 pressed').waitFor();
    await page.keyboard.press('Enter');
    await expect.poll(() => position(page)).toBeGreaterThan(1);
    expect(await seriousProblems(page)).toEqual([]);
    await agent.close();
  });
}

/** A call that would last a minute; `signal` hangs up. */
async function placeUntil(scene: DashboardScene, call: object, signal: AbortSignal): Promise<void> {
  const { app, echoNumber } = scene;
  await fetch(`${app.httpUrl}/v1/simulator/calls`, {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${app.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ to: echoNumber, duration_ms: 60_000, ...call }),
  }).catch((error) => {
    if (!signal.aborted) throw error;
  });
}
