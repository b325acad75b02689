/** What the tests of the dashboard share: one gateway, one browser, an identity provider, and a carrier for outgoing calls. */
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { openBrowser, openPage, type WatchedPage } from '../../support/browser.js';
import { type OidcProvider, oidcProvider } from '../../support/oidc-provider.js';
import { addTrunk } from '../../support/outbound.js';

export interface DashboardScene {
  readonly app: TestApp;
  readonly provider: OidcProvider;
  /** A page of its own, closed after the test, which must not have complained or asked another host. */
  open(
    place: string,
    options?: NonNullable<Parameters<typeof openPage>[2]> & { signedIn?: boolean },
  ): Promise<WatchedPage['page']>;
  /** A call of the simulated phone to the echo number, or another; resolves at its end. */
  place(call?: object): Promise<unknown>;
  scope(): { organizationId: string; mode: 'live' };
  /** The number that the built-in echo agent answers. */
  echoNumber: string;
}

export function dashboardScene(): DashboardScene {
  let app: TestApp;
  let browser: Browser;
  let provider: OidcProvider;
  let carrier: SimulatedCarrier;
  const opened: WatchedPage[] = [];
  beforeAll(async () => {
    provider = await oidcProvider();
    app = await startTestApp(
      {
        TRUNKLINE_JWT_ISSUER: provider.issuer,
        TRUNKLINE_JWT_AUDIENCE: provider.audience,
        TRUNKLINE_JWKS_URL: provider.jwksUrl,
        TRUNKLINE_OIDC_CLIENT_ID: provider.clientId,
        TRUNKLINE_BOOTSTRAP_KEY: '', // so that the start gives a link that signs in
      },
      { t1: 50, t2: 200, t4: 250 },
    );
    carrier = await openSimulatedCarrier({ ringMs: 100, timersMs: { t1: 100 } });
    await addTrunk(app, [carrier.uri]);
    browser = await openBrowser();
  });
  afterEach(async () => {
    for (const { page, complaints, strangers } of opened.splice(0)) {
      await page.context().close();
      expect(complaints).toEqual([]);
      expect(strangers.filter((url) => !url.startsWith(provider.issuer))).toEqual([]);
    }
  });
  afterAll(async () => {
    await browser?.close();
    await carrier?.close();
    await app?.end();
    provider?.close();
  });
  return {
    get app() {
      return app;
    },
    get provider() {
      return provider;
    },
    async open(place, { signedIn = true, ...options } = {}) {
      const watched = await openPage(browser, app.httpUrl, { ...(signedIn && { key: app.key }), ...options });
      opened.push(watched);
      await watched.page.goto(`${app.httpUrl}/#/${place}`);
      return watched.page;
    },
    place: (call = {}) => app.api('POST', '/v1/simulator/calls', { to: '+15550100', ...call }),
    scope: () => ({ organizationId: app.first?.organizationId ?? '', mode: 'live' }),
    echoNumber: '+15550100',
  };
}
