/** `calls` and `trace`: call records and their SIP messages. */
import type { Command } from 'commander';
import { type CliContext, type CommandContext, openSession } from '../context.js';
import { type Cell, facts, plain, quantity, table, time } from '../text.js';

interface CallRecord {
  id: string;
  from_number: string;
  to_number: string;
  direction: string;
  status: string;
  duration: number;
  cost: number;
  latency_ms: number;
  endpoint_id: string | null;
  recording_url: string | null;
  hangup_cause: string | null;
  created_at: string;
  answered_at: string | null;
  completed_at: string | null;
}

interface CallPage {
  data: CallRecord[];
  total: number;
  page: number;
  total_pages: number;
}

interface CallDetailRecord extends CallRecord {
  quality_metrics: {
    mos?: number;
    jitter_ms?: number;
    packet_loss?: number;
    rtt_ms?: number;
    codec?: string;
    audio_delay?: AudioDelay;
    tokens?: ({ provider: string } & { [kind: string]: number | string })[];
    echo?: { delay_ms: number; return_loss_db: number; suppressed: number; removed_db?: number };
  };
  events: { event_type: string; event_data: Record<string, unknown>; created_at: string }[];
  transcript: string | null;
  sip_call_id?: string | null;
  hangup_source?: string | null;
}

interface HopDelay {
  p50_ms: number;
  p95_ms: number;
  worst_ms: number;
}

interface AudioDelay {
  caller_network: HopDelay | null;
  gateway_uplink: HopDelay | null;
  agent_thinking: HopDelay | null;
  gateway_playout: HopDelay | null;
  blame: string | null;
}

interface ListOptions {
  limit: string;
  page: string;
  status?: string;
  direction?: string;
  since?: string;
  until?: string;
}

export function addCalls(program: Command, context: CliContext): void {
  program
    .command('calls')
    .argument('[id]', 'id of a call to show with its events')
    .description('list calls, newest first, or show one call')
    .option('--limit <n>', 'calls per page, 1 to 100', '20')
    .option('--page <n>', 'page number', '1')
    .option('--status <status>', 'completed, failed, in_progress, no_answer or busy')
    .option('--direction <direction>', 'inbound or outbound')
    .option('--since <date>', 'first day, YYYY-MM-DD in UTC')
    .option('--until <date>', 'last day, YYYY-MM-DD in UTC')
    .addHelpText(
      'after',
      '\nExamples:\n  $ trunkline calls --status failed --since 2026-01-31\n  $ trunkline calls 0193a6f2-…',
    )
    .action(async (id: string | undefined, options: ListOptions, command: Command) => {
      const session = openSession(context, command);
      await (id === undefined ? listCalls(session, options) : showCall(session, id));
    });
  program
    .command('trace')
    .argument('<id>', 'id of the call')
    .description('print the SIP messages of a call')
    .addHelpText('after', '\nExample:\n  $ trunkline trace 0193a6f2-…')
    .action(async (id: string, _options: object, command: Command) => {
      const session = openSession(context, command);
      const path = `/calls/${encodeURIComponent(id)}/trace`;
      if (session.json) return session.value(await session.api().get(path, { format: 'json' }));
      // SIP messages contain text of the peer: print it without control characters.
      const text = await session.api().text(path, { format: 'text' });
      session.lines(
        text
          .trimEnd()
          .split(/\r?\n/)
          .map((line) => (line === '' ? '' : plain(line))),
      );
    });
}

async function listCalls(session: CommandContext, options: ListOptions): Promise<void> {
  const page = await session.api().get<CallPage>('/calls', {
    limit: options.limit,
    page: options.page,
    status: options.status,
    direction: options.direction,
    start_date: options.since,
    end_date: options.until,
  });
  if (session.json) return session.value(page);
  const columns = [
    { title: 'ID' },
    { title: 'CREATED' },
    { title: 'DIRECTION' },
    { title: 'FROM' },
    { title: 'TO' },
    { title: 'STATUS' },
    { title: 'DURATION', right: true },
    { title: 'LATENCY', right: true },
    { title: 'COST', right: true },
    { title: 'CAUSE' },
  ];
  const rows = page.data.map((call) => [
    call.id,
    time(call.created_at),
    call.direction,
    call.from_number,
    call.to_number,
    call.status,
    quantity(call.duration, 's'),
    quantity(call.answered_at === null ? null : call.latency_ms, 'ms'),
    quantity(call.cost, 'ct', 2),
    call.hangup_cause,
  ]);
  session.lines(table(columns, rows));
  session.lines([`${page.data.length} of ${page.total} calls (page ${page.page} of ${page.total_pages})`]);
}

/** `120 ms, 14 dB, 3 suppressed, 25 dB removed`. */
function echoText(echo: NonNullable<CallDetailRecord['quality_metrics']['echo']>): string {
  const found = `${echo.delay_ms} ms, ${echo.return_loss_db} dB, ${echo.suppressed} suppressed`;
  return echo.removed_db === undefined ? found : `${found}, ${echo.removed_db} dB removed`;
}

/** `openai: input 200 (text 120, audio 80, cached 64), output 50 (…)`, without what the provider does not tell. */
function tokensText({ provider, ...used }: { provider: string } & { [kind: string]: number | string }): string {
  const part = (all: string, of: string[]) => {
    const kinds = of.flatMap((kind) =>
      used[kind] === undefined ? [] : [`${kind.replace(`${all}_`, '')} ${used[kind]}`],
    );
    return `${all} ${used[all] ?? '?'}${kinds.length === 0 ? '' : ` (${kinds.join(', ')})`}`;
  };
  const input = part('input', ['input_text', 'input_audio', 'cached']);
  return `${provider}: ${input}, ${part('output', ['output_text', 'output_audio', 'thoughts'])}`;
}

async function showCall(session: CommandContext, id: string): Promise<void> {
  const call = await session.api().get<CallDetailRecord>(`/calls/${encodeURIComponent(id)}`);
  if (session.json) return session.value(call);
  const quality = call.quality_metrics;
  const pairs: [string, Cell][] = [
    ['id', call.id],
    ['direction', call.direction],
    ['from', call.from_number],
    ['to', call.to_number],
    ['created', time(call.created_at)],
    ['answered', time(call.answered_at)],
    ['completed', time(call.completed_at)],
    ['duration', quantity(call.duration, 's')],
    ['latency', quantity(call.answered_at === null ? null : call.latency_ms, 'ms')],
    ['cost', quantity(call.cost, 'ct', 2)],
    ['codec', quality.codec],
    ['mos', quality.mos?.toFixed(2)],
    ['jitter', quantity(quality.jitter_ms, 'ms')],
    ['loss', quantity(quality.packet_loss, '%', 1)],
    ['round trip', quantity(quality.rtt_ms, 'ms')],
    ['delay: network', hopText(quality.audio_delay?.caller_network)],
    ['delay: uplink', hopText(quality.audio_delay?.gateway_uplink)],
    ['delay: agent', hopText(quality.audio_delay?.agent_thinking)],
    ['delay: playout', hopText(quality.audio_delay?.gateway_playout)],
    ['delay: cause', quality.audio_delay?.blame],
    ['echo', quality.echo && echoText(quality.echo)],
    ...(quality.tokens ?? []).map((used): [string, Cell] => ['tokens', tokensText(used)]),
    ['endpoint', call.endpoint_id],
    ['recording', call.recording_url],
    ['hung up by', call.hangup_source],
    ['sip call-id', call.sip_call_id],
  ];
  session.lines([...facts(pairs), '']);
  const rows = call.events.map((event) => [event.created_at, event.event_type, JSON.stringify(event.event_data)]);
  session.lines([...table([{ title: 'AT' }, { title: 'EVENT' }, { title: 'DATA' }], rows), '']);
  if (call.transcript) session.lines([...call.transcript.split('\n').map(plain), '']);
  session.lines([call.hangup_cause ? `${call.status}: ${call.hangup_cause}` : call.status]);
}

function hopText(hop: HopDelay | null | undefined): string | undefined {
  return hop ? `p50 ${hop.p50_ms}, p95 ${hop.p95_ms}, worst ${hop.worst_ms} ms` : undefined;
}
