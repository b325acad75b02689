import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SignInLink } from '../../src/api/dashboard/sign-in-link.js';
import { type TestApi, testApi } from '../support/api.js';
import { identityProvider } from '../support/identity-provider.js';

/** What the server gives a browser, without a browser. */

const dashboardFolder = fileURLToPath(new URL('../../dist/dashboard', import.meta.url));
const firstKey = `trunkline_live_${'f'.repeat(32)}`;
let api: TestApi;
let link: SignInLink;
beforeAll(async () => {
  link = new SignInLink(firstKey);
  api = await testApi({ dashboardFolder, signInLink: link });
});
afterAll(() => api.close());

describe('the page', () => {
  it('needs no key, lets no script and no host in but its own, and is not kept', async () => {
    const page = await api.app.inject('/');
    expect(page.statusCode).toBe(200);
    expect(page.headers['content-type']).toContain('text/html');
    const policy = String(page.headers['content-security-policy']);
    const nonce = /style-src 'self' 'nonce-([^']+)'/.exec(policy)?.[1];
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(page.body).toContain(`content="${nonce}"`);
    expect(page.headers).toMatchObject({
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
    });
    expect((await api.app.inject('/')).headers['content-security-policy']).not.toBe(policy);
  });

  it('loads files that are compressed, may be kept for ever, and are at most 100 KB at first', async () => {
    const { body } = await api.app.inject('/');
    const named = [...body.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map((match) => match[1] ?? '');
    expect(named.length).toBeGreaterThanOrEqual(2);
    let bytes = Buffer.byteLength(body);
    for (const url of named) {
      const file = await api.app.inject({ url, headers: { 'accept-encoding': 'gzip, br' } });
      expect(file.headers['content-encoding'], url).toBe('br');
      expect(file.headers['cache-control'], url).toBe('public, max-age=31536000, immutable');
      bytes += file.rawPayload.length;
    }
    // The overview draws its chart with a file that it loads itself.
    const assets = path.join(dashboardFolder, 'assets');
    const chart = readdirSync(assets).find((name) => /^uPlot.*\.js\.br$/.test(name));
    bytes += statSync(path.join(assets, chart ?? '')).size;
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(100_000);
    // No file names another host as a source of anything.
    for (const name of readdirSync(assets).filter((each) => each.endsWith('.css')))
      expect(readFileSync(path.join(assets, name), 'utf8')).not.toMatch(/url\(|@import/);
  });

  it('is not found beside its files, and other paths stay those of the API', async () => {
    for (const url of ['/assets/../.sources', '/assets/none.js', '/index.html', '/.sources'])
      expect((await api.app.inject(url)).statusCode, url).toBe(404);
    expect((await api.app.inject('/v1/me')).statusCode).toBe(401);
  });

  it('says how to build it where it is not built', async () => {
    const bare = await testApi({ dashboardFolder: path.join(dashboardFolder, 'nowhere') });
    const answer = await bare.app.inject('/');
    expect([answer.statusCode, answer.body]).toEqual([503, expect.stringContaining('npm run build')]);
    await bare.close();
  });
});

describe('the sign-in link', () => {
  const redeem = (code: string) => api.request('POST', '/sign-in/link', { key: null, body: { code } });

  it('gives the first key once, and to nobody else', async () => {
    expect((await redeem('wrong')).status).toBe(401);
    const { status, body } = await redeem(link.code);
    expect([status, body]).toEqual([200, { token: firstKey }]);
    expect((await redeem(link.code)).status).toBe(401);
  });

  it('ends after an hour', () => {
    let nowMs = 0;
    const old = new SignInLink(firstKey, () => nowMs);
    nowMs = 3_600_001;
    expect(old.redeem(old.code)).toBeNull();
  });
});

describe('sign-in at the identity provider', () => {
  it('is not offered where none is configured', async () => {
    const { body } = await api.request('GET', '/sign-in', { key: null });
    expect(body).toEqual({ identity_provider: null });
  });

  it('exchanges a code with its verifier for a token that the API accepts', async () => {
    const nowMs = Date.now();
    const idp = await identityProvider();
    const grants: Record<string, string>[] = [];
    const { createServer } = await import('node:http');
    const server = createServer(async (request, response) => {
      const here = `http://${request.headers.host}`;
      if (request.url === '/.well-known/openid-configuration')
        return response.end(
          JSON.stringify({ authorization_endpoint: `${here}/authorize`, token_endpoint: `${here}/token` }),
        );
      let text = '';
      for await (const chunk of request) text += chunk;
      const grant = Object.fromEntries(new URLSearchParams(text));
      grants.push(grant);
      if (grant.code !== 'good') return response.writeHead(400).end('{}');
      const issuer = here;
      response.end(
        JSON.stringify({ access_token: 'opaque', id_token: await idp.token({ sub: 'ada', iss: issuer }, nowMs) }),
      );
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const issuer = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    const tokens = { ...idp.settings, issuers: [issuer] };
    const withIdp = await testApi({ tokens, loginClientId: 'trunkline-dashboard', now: () => nowMs });
    const { body } = await withIdp.request('GET', '/sign-in', { key: null });
    const url = new URL(body.identity_provider.authorization_url);
    expect(url.origin + url.pathname).toBe(`${issuer}/authorize`);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      client_id: 'trunkline-dashboard',
      response_type: 'code',
    });
    const ask = (code: string) =>
      withIdp.request('POST', '/sign-in/code', {
        key: null,
        body: { code, code_verifier: 'v'.repeat(43), redirect_uri: 'http://x/' },
      });
    const good = await ask('good');
    expect(good.status).toBe(200);
    expect(grants.at(-1)).toMatchObject({
      grant_type: 'authorization_code',
      code_verifier: 'v'.repeat(43),
      client_id: 'trunkline-dashboard',
    });
    const me = await withIdp.request('GET', '/v1/me', {
      key: null,
      headers: { authorization: `Bearer ${good.body.token}` },
    });
    expect(me.status).toBe(403); // a good token of somebody who is no member yet
    expect((await ask('bad')).status).toBe(401);
    await withIdp.close();
    server.close();
    idp.close();
  });
});
