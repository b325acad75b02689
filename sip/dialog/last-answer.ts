/** The final answer to callers that rang when an external SIP server was lost: without it they would ring until their own limit. */
import { createSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { readHeaders } from '../drachtio/header.js';
import type { Stack } from '../drachtio/types.js';
import type { UnansweredInvite } from '../leg.js';

const confirmLimitMs = 2000;
/** T1 (RFC 3261 17.1.1.1): the answer is sent twice, since no transaction repeats it. */
const repeatMs = 500;

/**
 * Through the server when it kept the transaction: only the connection to it was lost. A server that was started anew has not, and cannot
 * send a response of its own; the answer then goes to the address that the INVITE came from, as a stateless server would send it (RFC 3261
 * 8.2.7). Callers over TCP or TLS noticed the loss themselves. Never rejects.
 */
export async function refuseLeft(stack: Stack, invite: UnansweredInvite): Promise<void> {
  if (await tookBack(stack, invite)) return;
  if (invite.peer.transport !== 'udp') return;
  const answer = refusalOf(invite, true);
  await sendTo(invite.peer, answer);
  await sleep(repeatMs);
  await sendTo(invite.peer, answer);
}

/** Whether the server still had the transaction. */
function tookBack(stack: Stack, invite: UnansweredInvite): Promise<boolean> {
  const { wp, mapServer } = stack.app.client;
  const [socket] = mapServer.keys();
  if (!socket) return Promise.resolve(false);
  return new Promise((resolve) => {
    const done = (isTaken: boolean) => {
      clearTimeout(limit);
      wp.off('msg', heard);
      resolve(isTaken);
    };
    const limit = setTimeout(() => done(false), confirmLimitMs);
    const heard = (_socket: Socket, frame: string) => {
      const [, kind, question, verdict] = frame.split('|', 4);
      if (kind === 'response' && question === asked) done(verdict?.startsWith('OK') ?? false);
    };
    wp.on('msg', heard);
    const asked = wp.send(socket, `sip|${invite.transactionId}|\r\n${refusalOf(invite, false)}`);
  });
}

/** `withVia`: as on the wire; a server that has the transaction adds the rest itself. */
export function refusalOf({ raw, localTag }: UnansweredInvite, withVia: boolean): string {
  const headers = readHeaders(raw);
  const [to = ''] = headers.get('to') ?? [];
  const isTagged = /;\s*tag=/i.test(to);
  const one = (name: string, value = headers.get(name.toLowerCase())?.[0] ?? '') => `${name}: ${value}`;
  return [
    'SIP/2.0 503 Service Unavailable',
    ...(withVia ? (headers.get('via') ?? []).map((via) => `Via: ${via}`) : []),
    one('From'),
    one('To', isTagged || localTag === '' ? to : `${to};tag=${localTag}`),
    one('Call-ID'),
    one('CSeq'),
    'Retry-After: 5',
    'Reason: Q.850;cause=41;text="SIP server lost"',
    'Content-Length: 0',
    '',
    '',
  ].join('\r\n');
}

function sendTo({ address, port }: { address: string; port: number }, message: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    const done = () => socket.close(() => resolve());
    socket.once('error', done);
    socket.send(message, port, address, done);
  });
}
