/**
 * A webhook endpoint in JSON: a menu with three keys. Checks the signature of every request (Standard Webhooks) when it has the secret.
 *
 * As a program: `WEBHOOK_SECRET=whsec_… node dist/examples/webhook-endpoint/index.js --port 8091`.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { type IncomingMessage, serveAnswers, webhookProgram } from '../webhook-server.js';

/** The next actions, by path. */
const script: Record<string, (event: { data?: { digits?: string; recording_url?: string } }) => object[]> = {
  '/calls': () => [
    {
      action: 'gather',
      num_digits: 1,
      timeout_s: 5,
      url: '/menu',
      prompts: [
        { action: 'say', text: 'Welcome. Press one for the time, two for the echo, three to leave a message.' },
      ],
    },
  ],
  '/menu': ({ data }) => {
    if (data?.digits === '1')
      return [{ action: 'say', text: `It is ${new Date().toUTCString().slice(17, 22)}, universal time.` }];
    if (data?.digits === '2') return [{ action: 'connect', url: 'ws://127.0.0.1:8090/twilio' }];
    if (data?.digits === '3')
      return [
        { action: 'say', text: 'Speak after the tone.' },
        { action: 'record', max_s: 60, silence_s: 3, url: '/recorded' },
      ];
    return [{ action: 'say', text: 'Goodbye.' }, { action: 'hangup' }];
  },
  '/recorded': ({ data }) => [
    { action: 'say', text: 'This is what you said.' },
    ...(data?.recording_url === undefined ? [] : [{ action: 'play', url: data.recording_url }]),
    { action: 'hangup' },
  ],
};

/** Rejects when the port cannot be opened. `secret` undefined: requests are not checked. */
export function startWebhookEndpoint(options: { port: number; secret?: string }) {
  return serveAnswers(options.port, (request, body) => {
    if (options.secret !== undefined && !isSigned(request, body, options.secret)) return { status: 401 };
    const next = script[(request.url ?? '').split('?')[0] ?? ''];
    if (next === undefined) return { status: 404 };
    return { status: 200, type: 'application/json', body: JSON.stringify({ actions: next(JSON.parse(body)) }) };
  });
}

function isSigned(request: IncomingMessage, body: string, secret: string): boolean {
  const text = (name: string) => String(request.headers[name] ?? '');
  const timestamp = text('webhook-timestamp');
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = createHmac('sha256', key)
    .update(`${text('webhook-id')}.${timestamp}.${body}`)
    .digest();
  return text('webhook-signature')
    .split(' ')
    .some((signature) => {
      const given = Buffer.from(signature.replace(/^v1,/, ''), 'base64');
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
}

await webhookProgram(import.meta.url, 8091, (port) =>
  startWebhookEndpoint({ port, ...(process.env.WEBHOOK_SECRET && { secret: process.env.WEBHOOK_SECRET }) }),
);
