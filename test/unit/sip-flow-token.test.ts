import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  dialogToken,
  entryToken,
  flowSecret,
  looksLikeToken,
  returnAddressOf,
  returnToken,
  targetOf,
} from '../../sip/server/flows/flow-token.js';

const key = 'k'.repeat(64);
const flow = { transport: 'tls', address: '2001:db8::7', port: 40_000 } as const;
const node = { transport: 'tcp', address: '10.0.0.2', port: 5060 } as const;

describe('tokens for the flows of a node', () => {
  afterEach(() => void vi.useRealTimers());

  it('open the call that they were made for, for two minutes, and then serve its CANCEL only', () => {
    vi.useFakeTimers();
    const token = entryToken(flowSecret(key, flow), flow, 'call-1');
    expect(targetOf(key, token, { id: 'call-1', opens: true })).toEqual({ kind: 'flow', endpoint: flow });
    expect(targetOf(key, token, { id: 'call-2', opens: true })).toBeNull();
    expect(targetOf('another node', token, { id: 'call-1', opens: true })).toBeNull();
    vi.advanceTimersByTime(121_000);
    expect(targetOf(key, token, { id: 'call-1', opens: true })).toBeNull();
    expect(targetOf(key, token, { id: 'call-1', opens: false })).toEqual({ kind: 'flow', endpoint: flow });
  });

  it('keep a node in the path of one call, each in its direction', () => {
    const toPhone = dialogToken(key, { kind: 'flow', endpoint: flow }, 'call-1');
    const toNode = dialogToken(key, { kind: 'node', endpoint: node }, 'call-1');
    expect(targetOf(key, toPhone, { id: 'call-1', opens: false })).toEqual({ kind: 'flow', endpoint: flow });
    expect(targetOf(key, toNode, { id: 'call-1', opens: false })).toEqual({ kind: 'node', endpoint: node });
    // neither the direction nor the address can be exchanged
    expect(targetOf(key, toNode.replace('node.', 'flow.'), { id: 'call-1', opens: false })).toBeNull();
    const [, , proof] = toNode.split('.');
    expect(targetOf(key, `node.${toPhone.split('.')[1]}.${proof}`, { id: 'call-1', opens: false })).toBeNull();
    expect(targetOf(key, toPhone, { id: 'call-2', opens: false })).toBeNull();
  });

  it('lead responses back to the sender of their request', () => {
    const token = returnToken(key, node, 'z9hG4bKa');
    expect(returnAddressOf(key, token, 'z9hG4bKa')).toEqual(node);
    expect(returnAddressOf(key, token, 'z9hG4bKb')).toBeNull();
    expect(returnAddressOf('another node', token, 'z9hG4bKa')).toBeNull();
  });

  it.each(['', 'bob', 'call', 'call.', 'call.!.1.x', 'flow.dWRw.x', 'node.dWRwIDEuMS4xLjEgOTk5OTk5.x', 'call.a.b.c.d'])(
    'are not any user name: "%s"',
    (text) => expect(targetOf(key, text, { id: 'call-1', opens: true })).toBeNull(),
  );

  it('can be written into a URI', () => {
    for (const token of [entryToken('s', flow, 'c'), dialogToken(key, { kind: 'node', endpoint: node }, 'c')]) {
      expect(token).toMatch(/^[\w.-]+$/);
      expect(looksLikeToken(token)).toBe(true);
    }
    expect(looksLikeToken('+15551234567')).toBe(false);
  });
});
