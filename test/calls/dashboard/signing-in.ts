import { expect, it } from 'vitest';
import type { DashboardScene } from './scene.js';

export function signingIn(scene: DashboardScene): void {
  const atProvider = async () => {
    const page = await scene.open('calls?status=failed', { signedIn: false });
    await page.getByRole('button', { name: 'Sign in at your identity provider' }).click();
    await page.getByRole('link', { name: /^Continue as/ }).click();
    return page;
  };
  const invite = (email: string) =>
    scene.app.api('POST', `/v1/organizations/${scene.app.first?.organizationId}/members`, { email, role: 'admin' });
  const storedSession = 'sessionStorage.getItem("trunkline.session")';

  it('takes a key that works, keeps it out of the URL, and forgets it at the end', async () => {
    const page = await scene.open('', { signedIn: false });
    await page.getByLabel('API key').fill('trunkline_live_wrong');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('A valid API key is required');
    await page.getByLabel('API key').fill(scene.app.key);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: /No call is live/ }).waitFor();
    expect(page.url()).not.toContain(scene.app.key);
    expect(await page.evaluate('Object.values(localStorage)')).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    expect(await page.evaluate('Object.values(sessionStorage)')).toEqual([]);
  });

  it('by the link of the first start works once', async () => {
    const link = /http:\S+#\/sign-in\/(\S+)/.exec(scene.app.banner);
    const code = link?.[1] ?? '';
    expect(code.length).toBeGreaterThan(20);
    const page = await scene.open(`sign-in/${code}`, { signedIn: false });
    await page.getByText('owner, live records').waitFor();
    expect(page.url()).toBe(`${scene.app.httpUrl}/#/`); // the code is out of the URL
    expect(JSON.parse(String(await page.evaluate(storedSession)))).toMatchObject({ token: scene.app.key });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    await page.evaluate(`location.hash = '#/sign-in/${code}'`);
    await page.reload();
    await page.getByRole('alert').waitFor();
    expect(page.url()).toBe(`${scene.app.httpUrl}/#/`);
    expect(await page.evaluate(storedSession)).toBeNull();
  });

  it('ends with the key: the page says so', async () => {
    const { key, id } = await scene.app.api<{ key: string; id: string }>('POST', '/v1/api-keys', {
      name: 'Short',
      mode: 'live',
    });
    const page = await scene.open('calls', { key });
    await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor();
    await scene.app.api('DELETE', `/v1/api-keys/${id}`);
    await page.evaluate("location.hash = '#/keys'");
    await page.getByText('Your session has ended').waitFor();
    expect(await page.evaluate(storedSession)).toBeNull();
  });

  it('at the identity provider leads back to the place that was asked for', async () => {
    await invite(scene.provider.person.email);
    const page = await atProvider();
    await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor();
    await page.getByText('admin, live records').waitFor();
    expect(page.url()).toBe(`${scene.app.httpUrl}/#/calls?status=failed`); // no code, no state
    const { token } = JSON.parse(String(await page.evaluate(storedSession)));
    expect(token).toMatch(/^eyJ/);
    expect(await page.evaluate('sessionStorage.getItem("trunkline.sign-in")')).toBeNull();
    expect(scene.provider.refusals).toEqual([]);
    await page.reload();
    await page.getByText('admin, live records').waitFor(); // the session lives as long as the tab
  });

  it('a token opens the event stream of the browser', async () => {
    const page = await scene.open('calls');
    await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor();
    const { token } = await scene.app.api<{ token: string }>('POST', '/v1/events/token', {});
    await page.evaluate(
      `new Promise((opened) => {
        window.heard = [];
        const source = new EventSource('/v1/events?token=' + ${JSON.stringify(token)});
        source.addEventListener('call.initiated', ({ data }) => window.heard.push(JSON.parse(data).event_data.from_number));
        source.onopen = opened;
      }).then(() => null)`,
    );
    await scene.place({ from: '+12025550184', duration_ms: 300 });
    await expect.poll(() => page.evaluate('window.heard')).toEqual(['+12025550184']);
  });

  it.each([
    ['state', 'belongs to another sign-in'],
    ['nonce', 'gave no token that this server accepts'],
    ['used code', 'gave no token that this server accepts'],
    ['refusal', 'The identity provider refused: access_denied'],
  ] as const)('with a wrong answer of the provider (%s) is refused', async (fault, says) => {
    scene.provider.fault = fault;
    const page = await atProvider();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain(says);
    expect(await page.evaluate(storedSession)).toBeNull();
    expect(new URL(page.url()).search).toBe('');
    scene.provider.fault = null;
    scene.provider.refusals = [];
  });

  it('is refused to a person without an invitation', async () => {
    const { person } = scene.provider;
    scene.provider.person = { sub: 'eve', email: 'eve@example.com' };
    const page = await atProvider();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('not a member of any organization');
    expect(await page.evaluate(storedSession)).toBeNull();
    scene.provider.person = person;
  });

  it('ends when the token expires', async () => {
    scene.provider.lifetimeSec = -57; // the server tolerates clocks that differ by a minute
    const page = await atProvider();
    await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor();
    scene.provider.lifetimeSec = 300;
    await expect
      .poll(async () => {
        await page.evaluate("location.hash = location.hash === '#/keys' ? '#/members' : '#/keys'");
        return page.getByText('Your session has ended').count();
      })
      .toBe(1);
    await page.getByRole('button', { name: 'Sign in at your identity provider' }).click();
    await page.getByRole('link', { name: /^Continue as/ }).click();
    await page.getByText('admin, live records').waitFor();
  });
}
