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
    // Also one among the settings that are folded away.
    await page.getByLabel('Target').fill('ws://127.0.0.1:9/agent');
    await page.getByRole('button', { name: /^All \d+ settings/ }).click();
    await page.getByLabel('First audio timeout seconds').fill('-4');
    await page.getByRole('button', { name: 'Fewer settings' }).click();
    await page.getByRole('button', { name: 'Create the endpoint' }).click();
    const timeout = page.getByLabel('First audio timeout seconds');
    await expect.poll(() => timeout.getAttribute('aria-invalid')).toBe('true');
    expect(await timeout.evaluate('document.activeElement.getAttribute("aria-invalid")')).toBe('true'); // it has the focus
    expect(await page.locator('[aria-invalid="true"]').count()).toBe(1);
    await timeout.fill('');
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

  it('mark the refused field of a row', async () => {
    const page = await scene.open('trunks/new');
    await page.getByRole('textbox', { name: 'Name (required)' }).fill('Carrier');
    const gateways = page.getByRole('group', { name: 'Gateways' });
    for (const uri of ['sip:127.0.0.1:5099', 'http://wrong.example.com']) {
      await gateways.getByRole('button', { name: 'Add' }).click();
      await gateways.getByLabel('URI').last().fill(uri);
    }
    await page.getByRole('button', { name: 'Create the trunk' }).click();
    await page.getByRole('alert').waitFor();
    const marked = () =>
      page.locator('[aria-invalid="true"]').evaluateAll((all) => all.map((each) => Reflect.get(each, 'value')));
    await expect.poll(marked).toEqual(['http://wrong.example.com']);
    expect(await page.evaluate('document.activeElement.value')).toBe('http://wrong.example.com');
  });

  it('the check of the installation names a fix, and is content after it', async () => {
    const { app } = scene;
    const trunk = { name: 'TLS carrier', transport: 'tls', gateways: [{ uri: 'sips:127.0.0.1:9' }] };
    const { id } = await app.api<{ id: string }>('POST', '/v1/trunks', trunk);
    const page = await scene.open('organization');
    await page.getByRole('button', { name: 'Check now' }).click();
    const finding = page.getByRole('row').filter({ hasText: '127.0.0.1:9' }).filter({ hasText: 'carrier tls' });
    await finding.getByText('check its host, port and firewall').waitFor();
    expect(await finding.getByText('Failure').count()).toBe(1);
    await app.api('DELETE', `/v1/trunks/${id}`);
    await page.getByRole('button', { name: 'Check again' }).click();
    await finding.waitFor({ state: 'detached' });
  });

  it('compare two endpoints by calls with faults', async () => {
    const { app } = scene;
    const page = await scene.open('try');
    const asked: Record<string, unknown>[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/simulator/calls')) asked.push(request.postDataJSON());
    });
    const echo = page.locator('#target-b option').filter({ hasText: 'Echo' }).last();
    await page.getByLabel('A', { exact: true }).selectOption(`number:${scene.echoNumber}`);
    await page.getByLabel('B, to compare').selectOption(await echo.getAttribute('value'));
    await page.getByLabel('The caller').selectOption('noise');
    await page.getByLabel(/^Length/).fill('3');
    await page.getByLabel(/^Packets lost/).fill('20');
    await page.getByLabel(/^Jitter/).fill('40');
    await page.getByRole('button', { name: 'Call both' }).click();
    // Both carry noise, and both figures grow while they run.
    for (const side of [0, 1])
      await expect
        .poll(() => page.locator('.meter[data-speaker="caller"]').nth(side).getAttribute('style'))
        .toMatch(/width: [1-9]/);
    await expect.poll(() => page.getByText(/^\d+ packets heard/).count()).toBe(2);
    await page.getByRole('button', { name: 'Call both' }).waitFor(); // both are over
    const result = page.getByRole('row', { name: /^MOS heard by the caller/ });
    expect(await result.getByRole('cell').count()).toBe(2);
    expect(await page.getByRole('columnheader', { name: 'B', exact: true }).count()).toBe(1);
    const faults = { speech: 'noise', loss_percent: 20, jitter_ms: 40, duration_ms: 3_000 };
    expect(asked).toEqual([expect.objectContaining(faults), expect.objectContaining(faults)]);
    // The records show the faults, of two calls to two numbers; the number that was made for the trial is gone.
    const records = await Promise.all(
      asked.map(({ from }) =>
        app.api<{ data: { id: string; to_number: string }[] }>(
          'GET',
          `/v1/calls/search?number=${encodeURIComponent(String(from))}`,
        ),
      ),
    );
    for (const { data } of records) {
      const call = await app.api<{ quality_metrics: { packet_loss: number; jitter_ms: number } }>(
        'GET',
        `/v1/calls/${data[0]?.id}`,
      );
      expect(call.quality_metrics.packet_loss).toBeGreaterThan(3);
      expect(call.quality_metrics.jitter_ms).toBeGreaterThan(3);
    }
    expect(new Set(records.map(({ data }) => data[0]?.to_number)).size).toBe(2);
    const { data: numbers } = await app.api<{ data: { name: string }[] }>('GET', '/v1/phone-numbers');
    expect(numbers.filter(({ name }) => name?.startsWith('Try it'))).toEqual([]);

    await page.getByRole('button', { name: 'No faults' }).click();
    await page.getByLabel('B, to compare').selectOption('');
    await page.getByLabel('The caller').selectOption('silence');
    await page.getByLabel(/^Length/).fill('2');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText(/^\d+ packets heard/).waitFor();
    expect(await page.locator('.meter[data-speaker="caller"]').first().getAttribute('style')).not.toMatch(
      /width: [1-9]/,
    );
    await page.getByRole('button', { name: 'Call', exact: true }).waitFor();
    expect(asked[2]).toMatchObject({ speech: 'silence', duration_ms: 2_000 });
    expect(asked[2]).not.toHaveProperty('loss_percent');
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
