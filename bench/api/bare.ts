/** The floor: a Fastify with nothing but the route, the schemas of the path and of the answer, and an answer that is there already. */
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';

interface Described {
  paths: Record<string, { get: { responses: Record<string, { content: Record<string, { schema: object }> }> } }>;
  components: { schemas: Record<string, object> };
}

export async function bareApp(answer: unknown, document: Described): Promise<{ port: number; close(): Promise<void> }> {
  const app = Fastify({ logger: false });
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const text = JSON.stringify({ ...schema, $id: name }).replaceAll('#/components/schemas/', '');
    app.addSchema(JSON.parse(text.replaceAll(/"\$ref":"(\w+)"/g, '"$ref":"$1#"')));
  }
  const params = { type: 'object', required: ['id'], properties: { id: { type: 'string', format: 'uuid' } } };
  app.get('/v1/calls/:id', { schema: { params, response: { 200: { $ref: 'CallDetail#' } } } }, async () => answer);
  await app.listen({ host: '127.0.0.1', port: 0 });
  return { port: (app.server.address() as AddressInfo).port, close: () => app.close() };
}
