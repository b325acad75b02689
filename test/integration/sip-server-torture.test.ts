/** The files of test/torture, each with the answer it names; and anomalies made up per header. After each the server is alive. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SipMessage, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { openTestServer, SDP, type TestServer } from '../support/sip-server.js';

const folder = path.resolve(import.meta.dirname, '../torture');
const files = readdirSync(folder).filter((name) => name.endsWith('.sip'));

let t: TestServer;

beforeAll(async () => {
  t = await openTestServer({ limits: { waitMs: 30_000, lagMs: 30_000 } });
  t.srf.use('options', (_req, res) => {
    res.send(200);
  });
  t.srf.invite((_req, res) => {
    res.send(486);
  });
});
afterAll(async () => {
  await t.idle(15_000);
  await t.close();
});

/** Sends it and a sound request behind it, and waits for the answer to the second. Returns the final status of the first so far, or `none`. */
async function sendBefore(peer: SipPeer, bytes: Buffer): Promise<string> {
  peer.received.length = 0;
  peer.send(bytes);
  const alive = `alive-${peer.newBranch()}`;
  peer.send(peer.request('OPTIONS', { 'Call-ID': alive }));
  await peer.wait((m) => m.callId === alive);
  const other = peer.received.find((m) => isFinal(m) && m.callId !== alive);
  return other instanceof SipResponse ? String(other.status) : 'none';
}

const isFinal = (m: SipMessage) => m instanceof SipResponse && m.status >= 200;

/** As `sendBefore`, but an answer that is expected may also come later: on a busy machine, datagrams overtake each other. */
async function answerTo(peer: SipPeer, bytes: Buffer, expected: string): Promise<string> {
  const status = await sendBefore(peer, bytes);
  if (status !== 'none' || expected === 'none') return status;
  const late = await peer.wait((m) => isFinal(m) && !m.callId.startsWith('alive-'));
  return String((late as SipResponse).status);
}

describe('torture', () => {
  it.each(files)('%s', async (name) => {
    const text = readFileSync(path.join(folder, name), 'utf8');
    const [, answer, message] = /^# [^\n]*\n# answer: (\S+)\n([\s\S]*)$/.exec(text) ?? [];
    const peer = await SipPeer.open(t.port);
    expect(await answerTo(peer, Buffer.from(message!.replaceAll('\n', '\r\n')), answer!)).toBe(answer);
    await peer.close();
  });

  it('anomalies in every header: alive after each', async () => {
    const names = ['Via', 'From', 'To', 'Call-ID', 'CSeq', 'Max-Forwards', 'Contact', 'Content-Length', 'Require'];
    const more = ['Session-Expires', 'Min-SE', 'RAck', 'Route', 'Record-Route', 'Supported', 'Content-Type'];
    const value = fc.oneof(
      fc.constantFrom('', '-1', '0', '4294967296', '99999999999999999999', '\0', '*', ',,,', ';;;=', '<', '"', '<sip:'),
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.integer({ min: 1, max: 40_000 }).map((length) => 'x'.repeat(length)),
    );
    const peer = await SipPeer.open(t.port);
    const property = fc.asyncProperty(
      fc.constantFrom('OPTIONS', 'INVITE', 'BYE', 'CANCEL', 'ACK', 'PRACK', 'REGISTER', 'UPDATE'),
      fc.dictionary(fc.constantFrom(...names, ...more), value, { minKeys: 1, maxKeys: 3 }),
      async (method, lines) => {
        const bytes = Buffer.from(peer.request(method, { 'Call-ID': peer.newBranch(), ...lines }, SDP));
        await sendBefore(peer, bytes.subarray(0, 60_000));
      },
    );
    await fc.assert(property, { numRuns: 300, seed: 5118 });
    expect(t.failures).toEqual([]);
    await peer.close();
  });

  it('64 KB in one datagram, and ten thousand headers, are answered or dropped in time', async () => {
    const peer = await SipPeer.open(t.port);
    const huge = peer.request('OPTIONS', { 'X-Filler': 'y'.repeat(64_000) });
    expect(await answerTo(peer, Buffer.from(huge), '200')).toBe('200');
    const many = peer.request('OPTIONS').replace('Max-Forwards', `${'a: b\r\n'.repeat(10_000)}Max-Forwards`);
    expect(['200', '400']).toContain(await answerTo(peer, Buffer.from(many), '200'));
    await peer.close();
  });
});
