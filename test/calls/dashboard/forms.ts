import { expect, it } from 'vitest';
import type { DashboardScene } from './scene.js';

export function forms(scene: DashboardScene): void {
  it('make an endpoint and a number, test them, and call them from the page', async () => {
    const { app } = scene;
    const page = await scene.open('endpoints/new');
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
    await page.getByLabel('Endpoint', { exact: true }).selectOption({ label: 'Echo' });
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
    const row = page.getByRole('row', { name: /Echo there and back/ });
    expect(Number.parseInt((await row.getByRole('cell').first().textContent()) ?? '', 10)).toBeGreaterThan(20);
    await page.getByRole('link', { name: 'Its record' }).click();
    await page.getByText('the caller hung up.').waitFor();
  });

  it('have the fields of the chosen kind only, and show a new secret once', async () => {
    const page = await scene.open('endpoints/new');
    await page.getByLabel('Name').fill('Hook');
    await page.getByLabel('Provider').selectOption({ label: 'ElevenLabs Agents' });
    await page.getByLabel('Agent id').waitFor();
    expect(await page.getByRole('link', { name: /ElevenLabs Agents: what these settings mean/ }).count()).toBe(1);
    await page.getByLabel('Type').selectOption({ label: 'Webhook: your own HTTP server' });
    await page.getByLabel('Events URL').waitFor();
    expect(await page.getByLabel('Provider').count()).toBe(0);
    await page.getByLabel('Target').fill('http://127.0.0.1:9/calls');
    await page.getByLabel('Events URL').fill('http://127.0.0.1:9/events');
    await page.getByRole('button', { name: 'Create the endpoint' }).click();
    const secret = (await page.locator('.secret').textContent()) ?? '';
    expect(secret).toMatch(/^whsec_/);
    await page.getByRole('link', { name: 'I have it' }).click();
    await page.getByRole('heading', { level: 1, name: 'Hook' }).waitFor();
    expect(await page.content()).not.toContain(secret);
  });

  it('show a new key once', async () => {
    const page = await scene.open('keys/new');
    await page.getByLabel('Name').fill('For a program');
    await page.getByRole('button', { name: 'Create the key' }).click();
    const key = (await page.locator('.secret').textContent()) ?? '';
    expect(key).toMatch(/^trunkline_live_\w{32}$/);
    await page.getByRole('link', { name: 'I have it' }).click();
    await page.getByText('For a program').waitFor();
    expect(await page.content()).not.toContain(key);
  });

  it('send a failed delivery again', async () => {
    const { app } = scene;
    const { data } = await app.api<{ data: { id: string; name: string }[] }>('GET', '/v1/endpoints');
    const hook = data.find(({ name }) => name === 'Hook')?.id ?? '';
    const number = { number: '+12025550151', endpoint_id: hook };
    const { id: phoneNumberId } = await app.api<{ id: string }>('POST', '/v1/phone-numbers', number);
    const call = { direction: 'inbound', fromNumber: '+12025550179', toNumber: number.number } as const;
    const callId = app.store.calls.begin({ ...scene.scope(), ...call, phoneNumberId, endpointId: hook });
    const end = { status: 'failed', hangupCause: 'webhook_error', hangupSource: 'system', durationSec: 0 } as const;
    app.store.calls.finish(callId, end);
    await app.store.calls.flush();
    const attempts = async () =>
      (
        await app.api<{ data: { attempts: unknown[] }[] }>('GET', `/v1/webhook-deliveries?call_id=${callId}`)
      ).data.reduce((sum, each) => sum + each.attempts.length, 0);
    await expect.poll(attempts).toBeGreaterThan(0);
    const before = await attempts();
    const page = await scene.open('deliveries');
    await page.getByRole('button', { name: 'Send again' }).last().click();
    await page.getByText('It is sent again now.').waitFor();
    await expect.poll(attempts).toBeGreaterThan(before);
  });
}
