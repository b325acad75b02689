/**
 * How the agent's echo is told from the caller's speech (docs/audio.md, Echo), with voices of espeak-ng in five languages: over analogue lines,
 * handsets and rooms (decaying noise as impulse response), G.711 both ways, delays of 10 to 500 ms, a return loss of 6 to 26 dB, clocks that
 * differ by up to 50 ppm, every fourth call with 2 % of packets lost on both ways. Each call is judged as on the wire, with the recognition of
 * echoes, without, and with its removal: an agent that speaks for about eight seconds, with its echo alone, with a caller who interrupts it over
 * the echo, and with a caller who interrupts it on a line without echo. Then by how much the removal makes echoes softer, from the moment when
 * they are known, and what it leaves of the interruption; and the processor time of a decision and of the removal.
 * Run: `npm run build && node dist/bench/echo.js [calls of each kind] [seed]`
 */
import { execFileSync } from 'node:child_process';
import { linearToUlaw, ulawToLinear } from '../media/audio/codec/g711.js';
import { AgentEcho } from '../media/audio/detect/agent-echo.js';
import { EchoSearch } from '../media/audio/detect/echo-path.js';
import { Turns } from '../media/audio/detect/turns.js';
import { createResampler } from '../media/audio/dsp/resample.js';
import { EchoCanceller } from '../media/audio/receive/echo-canceller.js';
import { bytesOf as sampleBytes } from '../media/audio/sample-format.js';

const packet = 160;
const beforeMs = 600;
const afterMs = 1200;
/** A barge-in is found when its time is as near as this to the caller's first sound. */
const nearMs = 300;
const activeRms = 2300;
const kinds = ['line', 'handset', 'room'] as const;
type Kind = (typeof kinds)[number];

let seed = Number(process.argv[3] ?? 5);
function random(): number {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
}
const among = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
const gauss = () => Math.SQRT2 * (random() + random() + random() + random() + random() + random() - 3);

const texts: Record<string, [agent: string, ...caller: string[]]> = {
  'en-us': [
    'Good morning, and thank you for calling the city library. I can help you with opening hours, with reservations, or with a lost card.',
    'No wait, that is not what I meant.',
    'Yes please, the second one.',
  ],
  de: [
    'Guten Morgen, hier ist die Stadtbibliothek. Ich kann Ihnen die Öffnungszeiten nennen, ein Buch vormerken oder eine Karte sperren.',
    'Moment mal, das meinte ich nicht.',
    'Ja bitte, das zweite.',
  ],
  'fr-fr': [
    'Bonjour et merci de votre appel. Je peux vous donner les horaires, réserver un livre ou bloquer une carte perdue.',
    'Attendez, ce n’est pas ce que je voulais.',
    'Oui merci, le deuxième.',
  ],
  es: [
    'Buenos días y gracias por llamar. Puedo darle los horarios, reservar un libro o bloquear una tarjeta perdida.',
    'Espere, no es lo que quería decir.',
    'Sí, por favor, el segundo.',
  ],
  it: [
    'Buongiorno e grazie per aver chiamato. Posso darle gli orari, prenotare un libro o bloccare una tessera smarrita.',
    'Aspetti, non intendevo questo.',
    'Sì, per favore, il secondo.',
  ],
};
const variants = ['f1', 'f2', 'f4', 'm1', 'm3', 'm7'];
const spoken = new Map<string, Float64Array>();

/** At 8 kHz, without silence around it, all equally loud. */
function voice(text: string, language: string): Float64Array {
  const name = `${language}+${among(variants)}`;
  const known = spoken.get(name + text);
  if (known) return known;
  const wav = execFileSync('espeak-ng', ['-v', name, '--stdout', text], { maxBuffer: 1e8 });
  const from = wav.indexOf('data', 12, 'latin1') + 8;
  const samples = Int16Array.from({ length: (wav.length - from) >> 1 }, (_, i) => wav.readInt16LE(from + 2 * i));
  const narrow = createResampler(wav.readUInt32LE(24), 8000).process(samples).slice();
  const first = narrow.findIndex((sample) => Math.abs(sample) > 200);
  const line = Float64Array.from(
    narrow.subarray(
      first,
      narrow.findLastIndex((sample) => Math.abs(sample) > 200),
    ),
  );
  const gain = activeRms / rms(line);
  spoken.set(
    name + text,
    line.map((sample) => sample * gain),
  );
  return spoken.get(name + text)!;
}

/** Of what is louder than silence. */
function rms(line: Float64Array): number {
  const loud = line.filter((sample) => Math.abs(sample) > 60);
  return Math.sqrt(loud.reduce((sum, sample) => sum + sample * sample, 0) / Math.max(1, loud.length));
}

function impulseResponse(kind: Kind): Float64Array {
  if (kind === 'line') {
    const response = Float64Array.from({ length: 96 }, (_, i) => gauss() * Math.exp(-i / 12));
    const first = Math.floor(random() * 8);
    response[first] = response[first]! + 2.5;
    return response;
  }
  const decaySec = kind === 'handset' ? 0.08 : 0.15 + 0.25 * random();
  const directDb = kind === 'handset' ? 6 : 6 * random();
  const room = Float64Array.from({ length: Math.floor(decaySec * 7200) }, (_, i) =>
    i >= 8 && random() < 0.5 ? gauss() * Math.exp((-6.9 * i) / 8000 / decaySec) : 0,
  );
  room[4] = Math.hypot(...room) * 10 ** (directDb / 20);
  const resonanceHz = 700 + 1200 * random();
  return convolve(
    room,
    Float64Array.from({ length: 40 }, (_, i) => 0.8 ** i * Math.cos((2 * Math.PI * resonanceHz * i) / 8000)),
  );
}

function convolve(signal: Float64Array, response: Float64Array): Float64Array {
  const out = new Float64Array(signal.length + response.length - 1);
  for (const [after, tap] of response.entries())
    if (tap !== 0) for (let i = 0; i < signal.length; i++) out[i + after] = out[i + after]! + tap * signal[i]!;
  return out;
}

const toUlaw = (line: Float64Array) =>
  Uint8Array.from(line, (sample) => linearToUlaw[Math.max(-32_768, Math.min(32_767, Math.round(sample))) & 0xffff]!);

interface BenchCall {
  toPhone: Uint8Array;
  fromPhone: Uint8Array;
  lost: Set<number>;
  /** Begin of the interruption. */
  saidMs: number;
  saidUntilMs: number;
  /** The caller's own voice. */
  own: Float64Array;
}

interface BenchLine {
  kind: Kind;
  delayMs: number;
  lossDb: number;
  lostPercent: number;
  driftPpm: number;
  /** A small loudspeaker turned up: its peaks are flattened. */
  distorts?: boolean;
}

function bytesOf(agent: Float64Array, caller: Float64Array | null, atMs: number, line: BenchLine | null): BenchCall {
  const length = (beforeMs + afterMs) * 8 + agent.length;
  const said = new Float64Array(length);
  said.set(agent, beforeMs * 8);
  const toPhone = toUlaw(said);
  const lostPercent = line?.lostPercent ?? 0;
  const heard = new Float64Array(length).map(() => 8 * gauss());
  if (line !== null) {
    const arrived = Float64Array.from(toPhone, (byte) => ulawToLinear[byte]!);
    for (let at = 0; at < length; at += packet) if (100 * random() < lostPercent) arrived.fill(0, at, at + packet);
    const played = line.distorts ? arrived.map((sample) => activeRms * Math.tanh(sample / activeRms)) : arrived;
    const echo = convolve(played, impulseResponse(line.kind));
    const gain = (10 ** (-line.lossDb / 20) * rms(arrived)) / rms(echo);
    for (let i = 0; i < length; i++) {
      // Half a minute into the call.
      const at = i - line.delayMs * 8 + (i + 240_000) * line.driftPpm * 1e-6;
      const low = Math.floor(at);
      if (low < 0) continue;
      heard[i] = heard[i]! + gain * (echo[low]! + (echo[low + 1]! - echo[low]!) * (at - low));
    }
  }
  const from = Math.round((beforeMs + atMs) * 8);
  const own = new Float64Array(length);
  if (caller !== null) own.set(caller.subarray(0, length - from), from);
  for (let i = 0; i < length; i++) heard[i] = heard[i]! + own[i]!;
  const lost = new Set<number>();
  for (let at = 0; at < length; at += packet) if (100 * random() < lostPercent) lost.add(at);
  return {
    ...{ toPhone, fromPhone: toUlaw(heard), lost, own },
    ...{ saidMs: from / 8, saidUntilMs: (from + (caller?.length ?? 0)) / 8 },
  };
}

function told({ toPhone, fromPhone, lost }: BenchCall, echo: AgentEcho | null) {
  const turnsAt: number[] = [];
  const bargeInsAt: number[] = [];
  const clean = fromPhone.slice();
  let knownMs: number | null = null;
  const turns = new Turns(
    0,
    (event) => {
      if (event.type === 'bargeIn') bargeInsAt.push(event.atMs);
      else if (event.speaker === 'caller') turnsAt.push(event.startedMs);
    },
    undefined,
    echo,
  );
  for (let from = 0; from + packet <= toPhone.length; from += packet) {
    const nowMs = from / 8;
    if (from % (5 * packet) === 0) turns.tick(nowMs);
    echo?.sent(from, toPhone, from, from + packet, 'PCMU', nowMs);
    turns.fromAgent(from, toPhone, from, from + packet, 'PCMU', nowMs);
    if (from === 0 || lost.has(from - packet)) continue;
    const arrived = fromPhone.subarray(from - packet, from);
    const heard = echo?.heard(from, arrived, 'PCMU', nowMs) ?? arrived;
    clean.set(heard, from - packet);
    turns.fromCaller(from, heard, 0, packet, 'PCMU', nowMs);
    if (echo?.isKnown) knownMs ??= nowMs;
  }
  turns.end();
  return { turnsAt, bargeInsAt, clean, knownMs };
}

const calls = Number(process.argv[2] ?? 60);
interface Counted {
  calls: number;
  /** Without recognition, with it, and with removal. */
  found: [number, number, number];
  false: [number, number, number];
  /** In the second after the echo was known, and later. */
  soonDb: number[];
  laterDb: number[];
  wordsDb: number[];
  lostPercent: number[];
}
const results = new Map<string, Counted>();

/** By how much softer what was heard became, in dB. */
function softerDb({ fromPhone, lost }: BenchCall, clean: Uint8Array, fromMs: number, toMs: number): number {
  let [before, after] = [1, 1];
  for (let i = Math.round(fromMs * 8); i < Math.min(Math.round(toMs * 8), clean.length); i++) {
    if (lost.has(i - (i % packet))) continue;
    before += ulawToLinear[fromPhone[i]!]! ** 2;
    after += ulawToLinear[clean[i]!]! ** 2;
  }
  return 10 * Math.log10(before / after);
}

/** How much of the caller's own voice is left, in dB. */
function wordsDb({ own, lost }: BenchCall, clean: Uint8Array): number {
  let [same, whole] = [1, 1];
  for (let i = 0; i < clean.length; i++) {
    if (lost.has(i - (i % packet))) continue;
    same += own[i]! * ulawToLinear[clean[i]!]!;
    whole += own[i]! ** 2;
  }
  return 20 * Math.log10(Math.max(1e-3, same / whole));
}
/** Packets of the caller's speech of which less than half is left. */
function lostPercent({ own, lost }: BenchCall, clean: Uint8Array): number {
  let [spoken, gone] = [0, 0];
  for (let from = 0; from < clean.length; from += packet) {
    let [same, whole] = [0, 0];
    for (let i = from; i < from + packet; i++) {
      same += own[i]! * ulawToLinear[clean[i]!]!;
      whole += own[i]! ** 2;
    }
    if (lost.has(from) || whole < packet * (activeRms / 10) ** 2) continue;
    spoken += 1;
    if (same < 0.5 * whole) gone += 1;
  }
  return (100 * gone) / Math.max(1, spoken);
}

/** `isOver`: the caller speaks over the agent, which speaks for `agentMs`. */
function tryCall(name: string, call: BenchCall, isOver: boolean, agentMs: number): void {
  const result: Counted = results.get(name) ?? {
    ...{ calls: 0, found: [0, 0, 0], false: [0, 0, 0] },
    ...{ soonDb: [], laterDb: [], wordsDb: [], lostPercent: [] },
  };
  results.set(name, result);
  result.calls += 1;
  for (const which of [0, 1, 2] as const) {
    const echo = which === 0 ? null : new AgentEcho(0);
    echo?.remove(which === 2);
    const { turnsAt, bargeInsAt, clean, knownMs } = told(call, echo);
    const isFound = bargeInsAt.some((at) => Math.abs(at - call.saidMs) < nearMs);
    const isFalse = turnsAt.some((at) => !isOver || at < call.saidMs - nearMs || at > call.saidUntilMs + nearMs);
    result.found[which] += Number(isFound);
    result.false[which] += Number(isFalse);
    if (which < 2) continue;
    if (isOver) {
      result.wordsDb.push(wordsDb(call, clean));
      result.lostPercent.push(lostPercent(call, clean));
    } else if (knownMs !== null) {
      const soonMs = knownMs + 1000;
      const endMs = beforeMs + agentMs;
      if (soonMs < endMs) result.soonDb.push(softerDb(call, clean, knownMs, soonMs));
      if (soonMs + 500 < endMs) result.laterDb.push(softerDb(call, clean, soonMs, endMs));
    }
  }
}

for (let n = 0; n < calls; n++) {
  const languages = Object.keys(texts);
  const language = among(languages);
  const agent = voice(texts[language]![0], language);
  const other = among(languages);
  const caller = voice(texts[other]![1 + Math.floor(2 * random())]!, other);
  const line: BenchLine = {
    kind: kinds[n % kinds.length]!,
    ...{ delayMs: 10 + 490 * random(), lossDb: 6 + 20 * random() },
    ...{ lostPercent: n % 4 === 3 ? 2 : 0, driftPpm: 100 * random() - 50 },
  };
  const atMs = 800 + 2500 * random();
  const echoes = [line, ...(line.kind === 'room' ? [{ ...line, distorts: true }] : [])];
  for (const each of echoes) {
    const path = each.distorts ? `${each.kind}, distorted` : each.kind;
    tryCall(`echo alone, ${path}`, bytesOf(agent, null, atMs, each), false, agent.length / 8);
    tryCall(`interruption over echo, ${path}`, bytesOf(agent, caller, atMs, each), true, agent.length / 8);
  }
  tryCall('interruption', bytesOf(agent, caller, atMs, null), true, agent.length / 8);
}
const columns = (values: readonly (number | string)[]) => values.map((value) => String(value).padStart(8)).join('');
/** The median, and the least. */
const spread = (values: number[]) => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted.length === 0 ? '–' : `${sorted[sorted.length >> 1]!.toFixed(1)} (${sorted[0]!.toFixed(1)})`;
};
console.log(`${''.padEnd(48)}${'barge-in found'.padStart(24)}${'a turn that is none'.padStart(24)}`);
console.log(
  `${''.padEnd(40)}${columns(['calls', ...['without', 'known', 'removed'], ...['without', 'known', 'removed']])}`,
);
for (const [name, { calls: all, found, false: wrong }] of [...results].sort())
  console.log(name.padEnd(40) + columns([all, ...(name.startsWith('echo') ? ['–', '–', '–'] : found), ...wrong]));
console.log('\nremoval, dB: median (least)');
for (const [name, { soonDb, laterDb, wordsDb: words, lostPercent: gone }] of [...results].sort())
  console.log(
    `${name.padEnd(40)} first second ${spread(soonDb).padEnd(12)} later ${spread(laterDb).padEnd(12)} the caller's words ${spread(words).padEnd(12)}` +
      (gone.length === 0 ? '' : `, ${(gone.reduce((sum, each) => sum + each, 0) / gone.length).toFixed(1)} % lost`),
  );
console.log('');

/** Microseconds of processor time: the least of rounds. */
function time(title: string, run: () => void): void {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 9; round++) {
    const before = process.cpuUsage();
    for (let i = 0; i < 1000; i++) run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  console.log(`${title.padEnd(60)} ${least.toFixed(1)} µs`);
}
const noise = () => Int16Array.from({ length: 16_384 }, () => 2000 * gauss());
const [heard, sent] = [noise(), noise()];
const search = new EchoSearch();
time('decision at a known delay (200 ms)', () => {
  search.load(heard, sent, 16_000, 400, 60);
  search.at(30);
});
time('search of the delay (200 ms of audio, 0 to 560 ms)', () => {
  search.load(heard, sent, 16_000, 400, 1120);
  search.find();
});
const echo = new AgentEcho(0);
const frame = toUlaw(Float64Array.from({ length: packet }, () => 2000 * gauss()));
let at = 0;
time('20 ms of the agent alone', () => {
  echo.sent(at * packet, frame, 0, packet, 'PCMU', at * 20);
  at += 1;
});
time('20 ms of both', () => {
  echo.sent(at * packet, frame, 0, packet, 'PCMU', at * 20);
  echo.heard(at * packet, frame, 'PCMU', at * 20);
  at += 1;
});
for (const [codec, bytes] of [
  ['PCMU', packet],
  ['G722', 640],
  ['OPUS', 960],
] as const) {
  const canceller = new EchoCanceller();
  const frames = Array.from({ length: 50 }, () => {
    const samples = Int16Array.from({ length: codec === 'PCMU' ? packet : bytes / 2 }, () => 2000 * gauss());
    return codec === 'PCMU' ? toUlaw(Float64Array.from(samples)) : sampleBytes(samples);
  });
  let n = 1;
  time(`20 ms of ${codec}, from which the echo is removed`, () => {
    canceller.sent(n * packet, frames[n % 50]!, 0, bytes, codec, false);
    canceller.heard((n - 1) * packet, frames[(n + 47) % 50]!, codec, 60);
    n += 1;
  });
}
