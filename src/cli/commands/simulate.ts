/** `simulate`: a local voice-agent provider, to try an endpoint without an account. */
import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { providerProtocols } from '../../simulator/providers/registry.js';
import { simulateProvider } from '../../simulator/providers/serve.js';
import type { CliContext } from '../context.js';
import { duration, hertz, whole, word } from './call-options.js';

interface SimulateOptions {
  port: number;
  host: string;
  greetingHz?: number;
  greeting?: number;
  answerHz?: number;
  answer?: number;
  mute?: boolean;
  session?: number;
  tlsKey?: string;
  tlsCert?: string;
}

const names = [...providerProtocols.keys()];

export function addSimulate(program: Command, context: CliContext): void {
  program
    .command('simulate')
    .description(
      'Simulate a voice-agent provider that greets and answers with tones, hangs up on key 9 and transfers on key 8',
    )
    .argument('<provider>', names.join(', '), word(...names))
    .option('--port <port>', 'TCP port; 0 for any free port', whole(0, 65_535), 0)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--greeting <time>', 'length of the greeting; 0 for none', duration)
    .option('--greeting-hz <hertz>', 'frequency of the greeting', hertz)
    .option('--answer <time>', 'length of an answer', duration)
    .option('--answer-hz <hertz>', 'frequency of an answer', hertz)
    .option('--session <time>', 'maximum session length, ended in the way of the provider; 0 for no limit', duration)
    .option('--tls-key <file>', 'PEM file of the key; with --tls-cert, wss: instead of ws:')
    .option('--tls-cert <file>', 'PEM file of the certificate')
    .option('--mute', 'accept connections but send no audio')
    .action(async (provider: string, options: SimulateOptions) => {
      const dialect = providerProtocols.get(provider);
      if (dialect === undefined) return;
      const { tlsKey, tlsCert } = options;
      const tls =
        tlsKey !== undefined && tlsCert !== undefined
          ? { key: await readFile(tlsKey, 'utf8'), cert: await readFile(tlsCert, 'utf8') }
          : undefined;
      const simulator = await simulateProvider(dialect, {
        port: options.port,
        host: options.host,
        mute: options.mute ?? false,
        ...(tls && { tls }),
        ...(options.session !== undefined && { sessionMs: options.session }),
        ...(options.greeting !== undefined && { greetingMs: options.greeting }),
        ...(options.greetingHz !== undefined && { greetingHz: options.greetingHz }),
        ...(options.answer !== undefined && { answerMs: options.answer }),
        ...(options.answerHz !== undefined && { answerHz: options.answerHz }),
        onEvent: (event) => context.out(JSON.stringify(event)),
      });
      context.out(`Simulating ${provider}. Target of the endpoint: ${simulator.url}`);
      await new Promise<void>((resolve) => {
        for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
      });
      await simulator.close();
    });
}
