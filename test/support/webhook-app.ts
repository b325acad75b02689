/** Webhook endpoints with a number and a server that answers as a table says. */
import { vi } from 'vitest';
import type { TestApp } from './app.js';
import { type ReceivedRequest, type Receiver, startReceiver } from './receiver.js';

/** A list of actions (with the format `ncco` the whole answer), an XML document, a status, or null for silence. */
export type Answer = object | string | number | null;

export interface WebhookApp {
  number: string;
  server: Receiver;
  endpointId: string;
  secret: string;
  /** Paths asked for, in order. */
  paths(): string[];
  /** The last form that was sent to this path. */
  form(path: string): Record<string, string>;
  /** Every form that was sent to this path. */
  forms(path: string): Record<string, string>[];
}

let nextNumber = 12025551000;

/** `answers` by path, without the query. `/start` is asked first. */
export async function webhookApp(
  app: TestApp,
  answers: { [path: string]: Answer },
  config: object = { format: 'twiml' },
  more: object = {},
): Promise<WebhookApp> {
  const isNcco = 'format' in config && config.format === 'ncco';
  const server = await startReceiver((request, response) => {
    const path = request.path.split('?')[0] ?? '';
    const answer = Object.hasOwn(answers, path) ? (answers[path] as Answer) : 204;
    if (answer === null) return;
    if (typeof answer === 'number') return void response.writeHead(answer).end();
    const isXml = typeof answer === 'string';
    response.writeHead(200, { 'content-type': isXml ? 'text/xml' : 'application/json' });
    response.end(isXml ? answer : JSON.stringify(isNcco ? answer : { actions: answer }));
  });
  const number = `+${nextNumber++}`;
  const endpoint = await app.api<{ id: string; webhook_secret: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target: `${server.url}/start`,
    provider_config: config,
    ...more,
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  const sentTo = (path: string) => server.requests.filter((request) => request.path.split('?')[0] === path);
  const formOf = (request: ReceivedRequest) => Object.fromEntries(new URLSearchParams(request.body));
  return {
    number,
    server,
    endpointId: endpoint.id,
    secret: endpoint.webhook_secret,
    paths: () => server.requests.map((request) => request.path),
    forms: (path) => sentTo(path).map(formOf),
    form: (path) => {
      const request = sentTo(path).at(-1);
      if (!request) throw new Error(`Nothing was sent to ${path}, but to ${server.requests.map((r) => r.path)}.`);
      return formOf(request);
    },
  };
}

/** Waits for what happens soon, also on a machine that runs other tests. */
export function soon<T>(check: () => T | Promise<T>, limitMs = 10_000): Promise<T> {
  return vi.waitFor(check, limitMs);
}
