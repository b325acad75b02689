/** SIP requests with one to three headers that no stack would write: empty, huge, binary, negative, half. The same for the same seed. */
import fc from 'fast-check';
import type { SipPeer } from './sip-peer.js';

const names = ['Via', 'From', 'To', 'Call-ID', 'CSeq', 'Contact', 'Content-Length', 'Require', 'Session-Expires'];
const odd = fc.oneof(
  fc.constantFrom('', '-1', '4294967296', '\0', '*', ',,,', ';;;=', '<', '"', '<sip:'),
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.integer({ min: 1, max: 20_000 }).map((length) => 'x'.repeat(length)),
);
const method = fc.constantFrom('OPTIONS', 'INVITE', 'BYE', 'CANCEL', 'ACK', 'REGISTER', 'UPDATE');
const messages = fc.tuple(method, fc.dictionary(fc.constantFrom(...names), odd, { minKeys: 1, maxKeys: 3 }));

export function oddMessages(peer: SipPeer, count: number, seed = 3261): Buffer[] {
  return fc
    .sample(messages, { numRuns: count, seed })
    .map(([verb, lines]) =>
      Buffer.from(peer.request(verb, { 'Call-ID': peer.newBranch(), ...lines }, '')).subarray(0, 60_000),
    );
}
