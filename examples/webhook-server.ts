/** Shared by the example webhooks: an HTTP server that answers POST requests, and a runner for programs. */
import { realpathSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

export type { IncomingMessage };

export interface WebhookServer {
  url: string;
  close(): Promise<void>;
}

type Answer = { status: number; type?: string; body?: string };

const mostBodyBytes = 65_536;

/** Rejects when the port cannot be opened. An exception in `answer` is sent as 400. */
export async function serveAnswers(
  port: number,
  answer: (request: IncomingMessage, body: string) => Answer,
): Promise<WebhookServer> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => {
      body += text;
      if (body.length > mostBodyBytes) request.destroy();
    });
    request.on('end', () => {
      let answered: Answer;
      try {
        answered = answer(request, body);
      } catch {
        answered = { status: 400 };
      }
      response.writeHead(answered.status, answered.type === undefined ? {} : { 'content-type': answered.type });
      response.end(answered.body);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Runs `start` with `--port` when `importMetaUrl` is the program that node was started with. */
export async function webhookProgram(
  importMetaUrl: string,
  defaultPort: number,
  start: (port: number) => Promise<WebhookServer>,
): Promise<void> {
  if (process.argv[1] === undefined || fileURLToPath(importMetaUrl) !== realpathSync(process.argv[1])) return;
  try {
    const { values } = parseArgs({ options: { port: { type: 'string' } } });
    const server = await start(Number(values.port ?? defaultPort));
    process.stdout.write(`Listening on ${server.url}\n`);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close());
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    process.exitCode = 1;
  }
}
