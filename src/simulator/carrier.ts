/** The simulated carrier that answers calls with a test key. The called number selects its behaviour. */
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { phoneCodecs } from '../../media/codecs.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { openSipGateway } from '../../sip/gateway.js';
import type { CallLeg, IncomingCall } from '../../sip/leg.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';
import { person, voicemail } from './greetings.js';
import { PhoneRtp } from './phone/phone-rtp.js';
import type { CallerSound } from './phone/voice.js';

export interface SimulatedCarrier {
  /** SIP URI of the carrier. */
  uri: string;
  /** Hangs up the remaining calls and closes everything. */
  close(): Promise<void>;
}

/** What a callee received; `from` and `to` are the calling and the called number. */
export interface CalleeHeard {
  from: string;
  to: string;
  samples: Int16Array;
  digits: string;
}

/** The behaviour of a called number. */
export type CalleeBehaviour =
  | { kind: 'answer'; hangUpAfterMs: number | null; earlyMedia: boolean; speech: CallerSound }
  | { kind: 'refuse'; status: number }
  | { kind: 'ring' };

const address = '127.0.0.1';
const toneHz = 440;
const keepAudioSec = 60;
/** The maximum length of a call. */
const longestCallMs = 4 * 3_600_000;
const codecs = phoneCodecs;

/**
 * `+15005550SSS`: 300–699 is refused with that SIP status; 100 rings without end; 183 plays a tone before the answer; 200–299 answers and
 * hangs up after that many seconds less 200; 150 is a person with a short greeting, and 160 a voicemail with a beep. Every other number answers
 * with a tone and does not hang up.
 */
export function behaviourOf(number: string): CalleeBehaviour {
  const code = Number(/^\+?15005550(\d{3})$/.exec(number)?.[1] ?? 0);
  if (code >= 300 && code <= 699) return { kind: 'refuse', status: code };
  if (code === 100) return { kind: 'ring' };
  const hangUpAfterMs = code >= 200 && code <= 299 ? (code - 200) * 1000 : null;
  const speech: CallerSound =
    code === 150 ? person() : code === 160 ? voicemail() : { kind: 'tone', frequencyHz: toneHz };
  return { kind: 'answer', hangUpAfterMs, earlyMedia: code === 183, speech };
}

export interface SimulatedCarrierOptions {
  ringMs: number;
  timersMs?: { t1?: number };
  /** Called at the end of each answered call; without it no audio is kept. */
  onHeard?: (heard: CalleeHeard) => void;
}

/** Rejects when no socket can be bound. */
export async function openSimulatedCarrier(options: SimulatedCarrierOptions): Promise<SimulatedCarrier> {
  const trunks = new TrunkTable();
  trunks.replace([
    {
      ...{ id: 'simulator', organizationId: null, name: 'simulator', direction: 'inbound', status: 'active' },
      ...{ addresses: ['127.0.0.0/8'], username: null, password: null, gateways: [] },
    },
  ]);
  const gateway = await openSipGateway({
    server: {
      kind: 'embedded',
      listen: [{ transport: 'udp', host: address, port: 0 }],
      product: 'trunkline-simulator',
      timersMs: options.timersMs,
    },
    trunks,
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  gateway.onIncomingCall((incoming) => take(incoming, options));
  return { uri: `sip:${address}:${gateway.addresses[0]?.port}`, close: () => gateway.stop(0) };
}

async function take(incoming: IncomingCall, { ringMs, onHeard }: SimulatedCarrierOptions): Promise<void> {
  const habit = behaviourOf(incoming.to.number);
  const line = await PhoneRtp.open(address, {
    ...{
      speech: habit.kind === 'answer' ? habit.speech : { kind: 'silence' },
      markers: false,
      ptimeMs: 20,
      impairments: {},
      keepAudioSec: onHeard ? keepAudioSec : 0,
    },
  });
  try {
    const leg = await ringAndAnswer(incoming, habit, line, ringMs);
    if (!leg) return;
    await talk(leg, habit, line);
    const { from, to } = incoming;
    onHeard?.({ from: from.number, to: to.number, samples: line.heard.samples, digits: line.digitsHeard });
  } finally {
    line.close();
  }
}

async function ringAndAnswer(
  incoming: IncomingCall,
  habit: CalleeBehaviour,
  line: PhoneRtp,
  ringMs: number,
): Promise<CallLeg | null> {
  const negotiation = new SdpNegotiation(
    { address, rtpPort: line.port, codecs: [...codecs] },
    String(randomInt(2 ** 40)),
  );
  const isEarly = habit.kind === 'answer' && habit.earlyMedia;
  try {
    await line.prepare(incoming.offer ?? '', codecs);
    const sdp = negotiation.answer(incoming.offer ?? '');
    if (negotiation.agreed) line.agree(negotiation.agreed);
    await incoming.ring(isEarly ? { sdp } : {});
    if (isEarly) line.start();
    await sleep(habit.kind === 'ring' ? longestCallMs : ringMs, undefined, { signal: incoming.cancelled });
    if (habit.kind === 'answer') {
      const leg = await incoming.answer(sdp);
      if (!isEarly) line.start();
      return leg;
    }
    void incoming.reject({ status: habit.kind === 'refuse' ? habit.status : 480 });
  } catch {
    void incoming.reject({ status: 488 }); // no codec in common; does nothing after a CANCEL
  }
  return null;
}

async function talk(leg: CallLeg, habit: CalleeBehaviour, line: PhoneRtp): Promise<void> {
  const hangUpAfterMs = habit.kind === 'answer' ? habit.hangUpAfterMs : null;
  const over = new AbortController();
  const enough = sleep(hangUpAfterMs ?? longestCallMs, undefined, { signal: over.signal }).catch(() => undefined);
  await Promise.race([leg.ended, enough]);
  over.abort();
  line.frameTimer.stop();
  await leg.hangup();
}
