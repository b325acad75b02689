/** `endpoints`: the destinations of calls. */
import type { Command } from 'commander';
import { type CliContext, openSession } from '../context.js';
import { CliFailure } from '../failure.js';
import { addList, addRemove, addShow } from './records.js';

interface EndpointRecord {
  id: string;
  name: string;
  type: string;
  target: string;
  provider: string | null;
  status: string;
  health: string;
  webhook_secret?: string;
}

interface AddOptions {
  name: string;
  type: string;
  target?: string;
  provider?: string;
  protocol?: string;
  providerConfig?: string;
  fallback?: string;
}

export function addEndpoints(program: Command, context: CliContext): void {
  const endpoints = program
    .command('endpoints')
    .description('list, show, add and remove endpoints, the destinations of calls');
  addList<EndpointRecord>(endpoints, context, {
    path: '/endpoints',
    what: ['endpoint', 'endpoints'],
    filters: [
      ['--type <type>', 'agent or webhook'],
      ['--status <status>', 'active or inactive'],
    ],
    columns: ['ID', 'NAME', 'TYPE', 'PROVIDER', 'TARGET', 'STATUS', 'HEALTH'],
    row: (e) => [e.id, e.name, e.type, e.provider, e.target, e.status, e.health],
  });
  addShow(endpoints, context, '/endpoints');
  endpoints
    .command('add')
    .description('add an endpoint')
    .requiredOption('--name <name>', 'display name')
    .option('--type <type>', 'agent (a voice agent) or webhook (your HTTP server)', 'agent')
    .option('--target <url>', 'a ws:, wss: or sip: URL for an agent; http: or https: for a webhook')
    .option('--provider <provider>', 'provider of an agent: custom, openai, elevenlabs, ...')
    .option('--protocol <protocol>', 'protocol of a custom agent: twilio, raw, ...')
    .option('--provider-config <json>', 'settings of the provider, as JSON')
    .option('--fallback <id>', 'id of the endpoint that takes the calls when this one fails')
    .addHelpText(
      'after',
      `
Examples:
  $ trunkline endpoints add --name bot --target wss://bot.example.com/call --protocol twilio
  $ trunkline endpoints add --name app --type webhook --target https://app.example.com/calls`,
    )
    .action(async (options: AddOptions, command: Command) => {
      const session = openSession(context, command);
      const config = options.providerConfig === undefined ? {} : parseObject(options.providerConfig);
      const endpoint = await session.api().post<EndpointRecord>('/endpoints', {
        name: options.name,
        type: options.type,
        target: options.target,
        provider: options.provider,
        provider_config:
          options.type === 'agent' || options.providerConfig ? { protocol: options.protocol, ...config } : undefined,
        fallback_endpoint_id: options.fallback,
      });
      if (session.json) return session.value(endpoint);
      if (endpoint.webhook_secret) session.lines([`webhook secret, shown only now: ${endpoint.webhook_secret}`]);
      session.lines([`added endpoint ${endpoint.id}`]);
    });
  addRemove(endpoints, context, '/endpoints', 'endpoint');
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // reported below without the text, which may contain a provider's key
  }
  throw new CliFailure('--provider-config: must be a JSON object, such as {"api_key":"..."}');
}
