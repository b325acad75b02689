/** What files of calls that a webhook steers have around their tests: one gateway, applications, and callers that each say a tone. */
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { startTestApp, type TestApp } from './app.js';
import { toneCaller } from './tone-caller.js';
import { type Answer, soon, type WebhookApp, webhookApp } from './webhook-app.js';

export interface WebhookScene {
  readonly app: TestApp;
  /** A number whose calls are steered so; see `webhookApp`. */
  application(answers: { [path: string]: Answer }, config?: object): Promise<WebhookApp>;
  /** Resolves when it was answered; hangs up with the test. */
  caller(number: string, frequencyHz: number): ReturnType<typeof toneCaller>;
}

/** Registers the hooks of a test file. `open`: what else is there; what it answers closes that, when the gateway is gone. */
export function webhookScene(
  environment: Record<string, string>,
  open?: (app: TestApp) => Promise<() => unknown>,
): WebhookScene {
  let app: TestApp;
  let closeRest: (() => unknown) | undefined;
  const servers: WebhookApp[] = [];
  const callers: Awaited<ReturnType<typeof toneCaller>>[] = [];
  beforeAll(async () => {
    app = await startTestApp(environment, { t1: 100, t2: 400, t4: 500 });
    closeRest = await open?.(app);
  });
  afterEach(async () => {
    for (const each of callers.splice(0).reverse()) await each.close();
    await soon(() => expect(app.live.count).toBe(0));
  });
  afterAll(async () => {
    for (const { server } of servers) await server.close();
    await app.end();
    await closeRest?.();
  });
  return {
    get app() {
      return app;
    },
    async application(answers, config) {
      const made = await webhookApp(app, answers, config);
      servers.push(made);
      return made;
    },
    async caller(number, frequencyHz) {
      const made = await toneCaller(app, number, frequencyHz);
      callers.push(made);
      return made;
    },
  };
}
