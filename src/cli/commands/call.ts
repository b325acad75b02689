/** `call`: places real SIP and RTP calls from a simulated phone and evaluates them. */
import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { CallPlan, CallTarget, Phone } from '../../simulator/phone/phone.js';
import type { SeveralPlan } from '../../simulator/several.js';
import { type CliContext, type CommandContext, openSession } from '../context.js';
import { CliFailure } from '../failure.js';
import { withAgent } from './ad-hoc-agent.js';
import { duration, goodbye, hertz, hostAndPort, percent, skew, whole, word } from './call-options.js';
import { describeReport, describeSummary } from './call-text.js';

type Codec = CallPlan['codecs'][number];
const codec = word('PCMU', 'PCMA', 'G722', 'OPUS');

interface CallOptions {
  agent?: string;
  agentProtocol?: string;
  from?: string;
  toHost?: CallTarget;
  transport: 'udp' | 'tcp';
  codec?: Codec;
  ptime: number;
  duration: number;
  ringTimeout: number;
  wav?: string;
  tone?: number;
  silence?: boolean;
  markers?: boolean;
  digits?: string;
  record?: string;
  username?: string;
  password?: string;
  loss?: number;
  lossBurst?: number;
  jitter?: number;
  reorder?: number;
  duplicate?: number;
  seed?: number;
  oneWay?: 'in' | 'out';
  clockSkew?: number;
  early?: boolean;
  reoffer?: Codec;
  reofferAfter: number;
  bye?: number | 'lost';
  ack: boolean;
  calls: number;
  rate: number;
}

export function addCall(program: Command, context: CliContext, fail: () => void): void {
  program
    .command('call')
    .argument('<number>', 'number to call, such as +15550100')
    .description('place a real call (SIP, RTP) to this or another server and print the measurements and a verdict')
    .option('--from <number>', 'caller id (default: +15005550001)')
    .option('--to-host <host:port>', 'server to call (default: the SIP address of the settings)', hostAndPort)
    .option('--agent <url>', 'a ws: or wss: agent that answers this number during the call (requires an API key)')
    .option('--agent-protocol <protocol>', 'protocol of the agent: twilio, raw, ... (default: twilio)')
    .option('--transport <transport>', 'udp or tcp', word('udp', 'tcp'), 'udp')
    .option('--codec <codec>', 'offer only PCMU, PCMA, G722 or OPUS (default: PCMU and PCMA)', codec)
    .option('--ptime <ms>', 'audio per packet, 10 to 60 in steps of 10', whole(10, 60, 10), 20)
    .option('--duration <time>', 'time from answer to hang-up: 10s, 500ms', duration, 10_000)
    .option('--ring-timeout <time>', 'cancel the call if it is not answered within: 60s', duration, 60_000)
    .option('--wav <file>', 'send the audio of this WAV file, then silence')
    .option('--tone <hz>', 'send a tone (default: 440Hz)', hertz)
    .option('--silence', 'send silence')
    .option('--markers', 'insert chirps to measure the round trip of audio (default, except with --wav)')
    .option('--no-markers', 'insert no chirps')
    .option('--digits <digits>', 'send keys 1 s after the answer (RFC 4733); w is a pause of 500 ms')
    .option('--record <file>', 'write the received audio to a WAV file')
    .option('--username <name>', 'user name for digest authentication')
    .option('--password <password>', 'password for digest authentication')
    .option('--loss <percent>', 'drop sent packets at random: 2%', percent)
    .option('--loss-burst <n>', 'average length of loss bursts, in packets', whole(1, 100))
    .option('--jitter <time>', 'delay sent packets by a random time up to: 30ms', duration)
    .option('--reorder <percent>', 'reorder sent packets: 1%', percent)
    .option('--duplicate <percent>', 'duplicate sent packets: 1%', percent)
    .option('--seed <n>', 'seed of the random generator (default: 1)', whole(0, 2 ** 31))
    .option('--one-way <direction>', 'one-way audio: in (none is sent) or out (none is received)', word('in', 'out'))
    .option('--clock-skew <ppm>', 'clock skew of the sent audio in parts per million, negative for slow: 200', skew)
    .option('--early', 'send audio before the answer, as soon as the far end has sent an SDP')
    .option('--reoffer <codec>', 'change to this codec by re-INVITE', codec)
    .option('--reoffer-after <time>', 'time from answer to the re-INVITE', duration, 2000)
    .option(
      '--bye <time|lost>',
      'stop the audio and send BYE this much later, or never (lost): the far end must detect it',
      goodbye,
    )
    .option('--no-ack', 'send no ACK (UDP): the far end retransmits its response until it gives up')
    .option('--calls <n>', 'number of calls', whole(1, 1000), 1)
    .option('--rate <n>', 'calls started per second', whole(1, 100), 1)
    .addHelpText(
      'after',
      `
The figures are this caller's own: what arrived at its sockets. The exit code is 0 when every call is ok.

Examples:
  $ trunkline call +15550100                                   the demo number: an echo
  $ trunkline call +15550100 --loss 2% --jitter 30ms           over a bad network
  $ trunkline call +15550100 --loss 5% --loss-burst 8          that loses eight packets at a time
  $ trunkline call +15550100 --bye lost                        how long it takes the server to notice that nobody is there
  $ trunkline call +15550100 --codec opus                      wideband
  $ trunkline call +15550100 --reoffer G722                    a change of codec in the middle
  $ trunkline call +15551234567 --wav hello.wav --record answer.wav --duration 20s
  $ trunkline call +15550123 --agent ws://127.0.0.1:8080/      an agent on this machine, without setting anything up
  $ trunkline call +15551234567 --digits 1w42# --to-host sip.example.com:5060 --transport tcp
  $ trunkline call +15550100 --calls 50 --rate 5 --duration 30s`,
    )
    .action(async (number: string, options: CallOptions, command: Command) => {
      const session = openSession(context, command);
      const [{ openPhone }, { planDefaults }, { speechFromWav }] = await Promise.all([
        import('../../simulator/phone/phone.js'),
        import('../../simulator/place-call.js'),
        import('../../simulator/phone/voice.js'),
      ]);
      if ((options.codec === 'OPUS' || options.reoffer === 'OPUS') && options.ptime % 20 !== 0 && options.ptime !== 10)
        throw new CliFailure('--ptime: Opus packets have 10, 20, 40 or 60 ms');
      if (options.record && options.calls > 1) throw new CliFailure('--record: allowed with one call only');
      const plan: SeveralPlan = {
        ...planDefaults,
        to: number,
        from: options.from ?? planDefaults.from,
        credentials: options.username ? { username: options.username, password: options.password ?? '' } : undefined,
        speech: options.wav
          ? speechFromWav(options.wav)
          : options.silence
            ? { kind: 'silence' }
            : { kind: 'tone', frequencyHz: options.tone ?? planDefaults.speech.frequencyHz },
        markers: options.markers ?? !options.wav,
        codecs: options.codec ? [options.codec] : planDefaults.codecs,
        ptimeMs: options.ptime,
        durationMs: options.duration,
        ringTimeoutMs: options.ringTimeout,
        digits: options.digits,
        impairments: {
          lossPercent: options.loss,
          burstPackets: options.lossBurst,
          jitterMs: options.jitter,
          reorderPercent: options.reorder,
          duplicatePercent: options.duplicate,
          seed: options.seed,
        },
        faults: {
          oneWay: options.oneWay,
          clockSkewPpm: options.clockSkew,
          speaksEarly: options.early,
          reoffer: options.reoffer && { codec: options.reoffer, afterMs: options.reofferAfter },
          bye: options.bye,
          losesAck: !options.ack,
        },
        calls: options.calls,
        callsPerSecond: options.rate,
      };
      if (options.digits && !/^[0-9A-Da-d*#wW]+$/.test(options.digits))
        throw new CliFailure('--digits: only 0-9, A-D, *, # and w are allowed');
      const target = {
        ...(options.toHost ?? (await localTarget(session, options.transport))),
        transport: options.transport,
      };
      if (!options.ack && target.transport !== 'udp') throw new CliFailure('--no-ack: allowed over udp only');
      const phone = await openPhone(target, { losesAcks: !options.ack });
      try {
        const place = () => placeAndReport(phone, plan, session, options.record, fail);
        const { agent: url, agentProtocol: protocol } = options;
        await (url ? withAgent(session.api(), { number, url, protocol }, place) : place());
      } finally {
        await phone.close();
      }
    });
}

/** SIGINT hangs up; the measurements are still printed. */
async function placeAndReport(
  phone: Phone,
  plan: SeveralPlan,
  session: CommandContext,
  recordFile: string | undefined,
  fail: () => void,
): Promise<void> {
  const { placeSeveral, summarize } = await import('../../simulator/several.js');
  const hangUp = new AbortController();
  const onInterrupt = () => hangUp.abort();
  process.once('SIGINT', onInterrupt);
  const recordings = await placeSeveral(phone, plan, hangUp.signal).finally(() => process.off('SIGINT', onInterrupt));
  const reports = recordings.map((recording) => recording.report());
  const [first] = reports;
  if (recordFile && recordings[0]) await writeRecording(recordFile, recordings[0].samples());
  if (reports.length === 0 || reports.some((report) => !report.ok)) fail();
  if (plan.calls === 1 && first) {
    if (session.json) session.value(first);
    else session.lines(describeReport(first, recordFile));
    return;
  }
  const summary = summarize(reports);
  if (session.json) session.value({ summary, calls: reports });
  else session.lines(describeSummary(summary, reports));
}

async function writeRecording(file: string, samples: Int16Array): Promise<void> {
  const { wavOf } = await import('../../simulator/phone/voice.js');
  try {
    writeFileSync(file, wavOf(samples));
  } catch (error) {
    throw new CliFailure(`--record: cannot write ${file}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** The address of the embedded SIP server, or of the first external one that reports a contact. */
async function localTarget(session: CommandContext, transport: string): Promise<{ host: string; port: number }> {
  const { sipHost, sipPort, sipServer } = session.settings();
  if (sipServer === 'embedded') return { host: sipHost === '0.0.0.0' ? '127.0.0.1' : sipHost, port: sipPort };
  const { askExternalServers } = await import('../../simulator/external-server.js');
  const told = await askExternalServers(sipServer);
  const contact = told.flatMap(({ contacts }) => contacts).find((each) => each.transport === transport);
  if (contact !== undefined) return contact;
  const why = told.map(({ server, problem }) => problem ?? `${server} has no ${transport.toUpperCase()} listener.`);
  throw new CliFailure(`No external SIP server can be called: ${why.join(' ')} Give an address with --to-host.`);
}
