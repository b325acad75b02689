/**
 * How long callers wait for their first word when each hears a greeting of its own: the offline voice alone, without calls.
 *
 *     npm run build && node dist/bench/greetings.js [--greetings 200] [--rate 40] [--threads 1]
 */
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createSafeHttp } from '../net/http.js';
import { Clips } from '../src/speech/clips.js';
import { sentencesOf } from '../src/speech/sentences.js';
import { openSpeechPools } from '../src/speech/speech-pool.js';

const { values } = parseArgs({
  options: {
    greetings: { type: 'string', default: '200' },
    rate: { type: 'string', default: '40' },
    threads: { type: 'string', default: '1' },
  },
});
const greetings = Number(values.greetings);
const everyMs = 1000 / Number(values.rate);
const greeting = (n: number) =>
  `Good morning, number ${n}, and thank you for calling Example Airways. How may we help you today?`;

const pools = openSpeechPools(Number(values.threads) + 1);
const http = createSafeHttp({ allowPrivate: false });
const clips = new Clips({ ...pools, http, operatorHttp: http, speechServer: null });
const say = (text: string, voice: string | null, dueAtMs: number) =>
  clips.say({ text, voice, language: null, dueAtMs });
await say('The threads have started.', null, performance.now());

interface Heard {
  firstWordMs: number;
  /** Silence between its parts. */
  gapMs: number;
  hurried: boolean;
}

async function caller(n: number): Promise<Heard> {
  await sleep(n * everyMs);
  const askedAtMs = performance.now();
  const heard: Heard = { firstWordMs: 0, gapMs: 0, hurried: false };
  let voice: string | null = null;
  let endsAtMs = 0;
  for (const text of sentencesOf(greeting(n))) {
    // The next part is asked for while this one is heard.
    const spoken = await say(text, voice, Math.max(askedAtMs, endsAtMs));
    const madeAtMs = performance.now();
    if (endsAtMs === 0) heard.firstWordMs = madeAtMs - askedAtMs;
    else heard.gapMs = Math.max(heard.gapMs, madeAtMs - endsAtMs);
    endsAtMs = Math.max(madeAtMs, endsAtMs) + ((spoken.clip as SharedArrayBuffer | null)?.byteLength ?? 0) / 8; // without a server there are no streams
    voice = spoken.voice;
    heard.hurried ||= spoken.warnings.length > 0;
  }
  return heard;
}

const startedAtMs = performance.now();
const load = loadavg()[0]?.toFixed(1);
const results = await Promise.allSettled(Array.from({ length: greetings }, (_, n) => caller(n)));
const heard = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
const at = (numbers: number[], share: number) =>
  Math.round(numbers.sort((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(share * numbers.length))] ?? 0);
const first = heard.map(({ firstWordMs }) => firstWordMs);
const gaps = heard.map(({ gapMs }) => gapMs);
console.log(`${greetings} greetings at ${values.rate}/s, ${values.threads} thread(s), load before ${load}`);
console.log(`failed ${greetings - heard.length}, in the faster voice ${heard.filter(({ hurried }) => hurried).length}`);
console.log(`first word after p50 ${at(first, 0.5)} ms, p95 ${at(first, 0.95)} ms, worst ${at(first, 1)} ms`);
console.log(`longest gap inside a greeting p50 ${at(gaps, 0.5)} ms, p95 ${at(gaps, 0.95)} ms, worst ${at(gaps, 1)} ms`);
console.log(
  `processor ${Math.round((process.cpuUsage().user + process.cpuUsage().system) / 1000)} ms in ${Math.round(performance.now() - startedAtMs)} ms`,
);
await Promise.all([pools.speech.close(), pools.files.close()]);
