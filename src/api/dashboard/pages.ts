/** Serves the built dashboard: one page at `/` and its files below `/assets/`, which have a hash of their content in their names. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import files from '@fastify/static';
import type { FastifyInstance } from 'fastify';

/** Where the page holds the nonce of its style element; a new one is written into each response. */
const nonceMark = '__STYLE_NONCE__';
const assetAgeSec = 31_536_000;

/**
 * Nothing is loaded from other hosts, and no script or style is inline; the nonce is for the style element that the waveform makes in its
 * shadow root. `blob:` is the recording, which is fetched with the key.
 */
export function pagePolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "media-src 'self' blob:",
    "connect-src 'self' blob:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/** `folder`: the result of `npm run build`. Without it `/` says how to build it. */
export async function registerDashboard(app: FastifyInstance, folder: string): Promise<void> {
  const index = path.join(folder, 'index.html');
  await app.register(async (pages) => {
    // These routes need no key and are not counted: the page is public, what it shows is not.
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'public', unlimited: true };
      route.schema = { ...route.schema, hide: true };
    });
    pages.addHook('onRequest', async (request, reply) => {
      reply.headers({ 'x-content-type-options': 'nosniff', 'x-request-id': request.id });
    });
    if (!existsSync(index)) {
      pages.get('/', (_request, reply) =>
        reply
          .code(503)
          .type('text/plain; charset=utf-8')
          .serializer(String)
          .send('The dashboard is not built. Run "npm run build" in the folder of Trunkline, then start it again.\n'),
      );
      return;
    }
    const page = readFileSync(index, 'utf8');
    pages.get('/', (_request, reply) => {
      const nonce = randomBytes(16).toString('base64');
      return reply
        .headers({
          'content-security-policy': pagePolicy(nonce),
          'cache-control': 'no-store',
          'referrer-policy': 'no-referrer',
          'x-frame-options': 'DENY',
        })
        .type('text/html; charset=utf-8')
        .serializer(String)
        .send(page.replaceAll(nonceMark, nonce));
    });
    await pages.register(files, {
      root: path.join(folder, 'assets'),
      prefix: '/assets/',
      wildcard: false,
      index: false,
      preCompressed: true,
      maxAge: assetAgeSec * 1000,
      immutable: true,
    });
  });
}
