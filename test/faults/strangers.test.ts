/** Strangers learn nothing: the same answer about every user and number, after the same time (S16). What they cost: `floods.test.ts`. */
import { afterEach, expect, it } from 'vitest';
import { FarEnds } from '../support/far-ends.js';
import { openTestGateway, phoneTrunk, type TestGateway } from '../support/sip-gateway.js';

let us: TestGateway;
let ends: FarEnds;

afterEach(async () => {
  await ends.close();
  await us.close();
});

/** What a stranger can tell two answers apart by: all but its own words, and what is drawn at random. */
function essence(text: string, user: string): string {
  return text
    .replaceAll(user, 'USER')
    .replace(/(branch=|tag=|nonce="|opaque=")[^;\s"]*/g, '$1x')
    .replace(/^Call-ID: .*$/im, 'Call-ID: x')
    .replace(/rport=\d+/g, 'rport=x');
}

async function answerTo(
  method: string,
  user: string,
  lines: readonly string[] = [],
): Promise<{ text: string; tookMs: number }> {
  const call = ends.call(user, { lines });
  const before = performance.now();
  if (method !== 'INVITE') call.send(call.write(method, 2, { outside: true, uri: `sip:127.0.0.1:${us.port}`, lines }));
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
  us = await openTestGateway([phoneTrunk('known-phone'), phoneTrunk('other-phone')], {
    server: {
      kind: 'embedded',
      listen: [{ transport: 'udp', host: '127.0.0.1', port: 0 }],
      timersMs: { t1: 50, t2: 200, t4: 100 },
    },
  });
  us.onCall(async (call) => call.reject({ status: 404 }));
  us = { ...us, port: us.gateway.addresses[0]?.port ?? 0 };
  ends = await FarEnds.open(us.port);
  const times: Record<string, number[]> = { 'known-phone': [], 'nobody-here': [] };
  const answers = new Set<string>();
  for (let i = 0; i < 40; i++) {
    for (const user of ['known-phone', 'nobody-here']) {
      const { text, tookMs } = await answerTo(
        method,
        user,
        lines.map((line) => line.replace('USER', user)),
      );
      answers.add(
        text
          .split('\r\n')
          .filter((line) => !line.startsWith('Date:'))
          .join('\n'),
      );
      times[user]!.push(tookMs);
    }
  }
  expect([...answers]).toHaveLength(1);
  const median = (user: string) => times[user]!.sort((a, b) => a - b)[20]!;
  const ratio = median('known-phone') / median('nobody-here');
  expect(ratio).toBeGreaterThan(0.4);
  expect(ratio).toBeLessThan(2.5);
});
