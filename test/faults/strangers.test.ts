/** Strangers learn nothing: the same answer about every user and number, after the same time, and no record comes of it (S16). What they cost: `floods.test.ts`. */
import { expect, it } from 'vitest';
import { FarEnds } from '../support/far-ends.js';
import { faultScene } from '../support/fault-scene.js';

/** Whoever registers here has this name; nobody has the other. */
const users = ['known-phone', 'nobody-here'] as const;

const scene = faultScene({
  timersMs: { t1: 50, t2: 200, t4: 100 },
  prepare: async (app) => {
    const [loopback] = await app.store.trunks.allForSip();
    await app.api('PATCH', `/v1/trunks/${loopback?.id}`, { addresses: ['127.0.0.1/32'] });
    for (const username of ['known-phone', 'other-phone'])
      await app.api('POST', '/v1/trunks', {
        name: username,
        direction: 'both',
        username,
        password: 'long-enough-secret',
      });
  },
});

/** What a stranger can tell two answers apart by: all but its own words, and what is drawn at random. */
function essence(text: string, user: string): string {
  return text
    .replaceAll(user, 'USER')
    .replace(/(branch=|tag=|nonce="|opaque=")[^;\s"]*/g, '$1x')
    .replace(/^Call-ID: .*$/im, 'Call-ID: x')
    .replace(/^Date: .*$/im, 'Date: x')
    .replace(/rport=\d+/g, 'rport=x');
}

async function answerTo(
  ends: FarEnds,
  method: string,
  user: string,
  lines: readonly string[],
): Promise<{ text: string; tookMs: number }> {
  const call = ends.call(user, { lines });
  const before = performance.now();
  if (method !== 'INVITE')
    call.send(call.write(method, 2, { outside: true, uri: `sip:127.0.0.1:${scene.port}`, lines }));
  const status = method === 'INVITE' ? await call.final() : await call.answerTo(method, 2);
  const message = call.received.find((m) => m.kind === 'response' && m.status === status && m.cseq?.method === method);
  return { text: essence(message?.raw.toString('latin1') ?? '', user), tookMs: performance.now() - before };
}

it.each([
  ['REGISTER', []],
  ['REGISTER', ['Authorization: Digest username="USER", realm="trunkline", nonce="1", uri="sip:h", response="0"']],
  ['INVITE', []],
  ['INVITE', ['Authorization: Digest username="USER", realm="trunkline", nonce="1", uri="sip:h", response="0"']],
] as const)('%s %j: known and unknown users get the same bytes, as fast', async (method, lines) => {
  scene.records = 0;
  const strangers = await FarEnds.open(scene.port, '127.0.0.12');
  const times = new Map<string, number[]>(users.map((user) => [user, []]));
  const answers = new Set<string>();
  for (let i = 0; i < 40; i++)
    for (const user of users) {
      const own = lines.map((line) => line.replace('USER', user));
      const { text, tookMs } = await answerTo(strangers, method, user, own);
      answers.add(text);
      times.get(user)!.push(tookMs);
    }
  await strangers.close();
  expect([...answers]).toHaveLength(1);
  const [known, unknown] = users.map((user) => times.get(user)!.sort((a, b) => a - b)[20]!);
  expect(known! / unknown!).toBeGreaterThan(0.4);
  expect(known! / unknown!).toBeLessThan(2.5);
});
