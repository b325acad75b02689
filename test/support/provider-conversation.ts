/** A provider's state machine without a connection: what it is sent, and what its messages make of a conversation. */
import type { Conversation, Plain, Sink } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { agentTarget } from './agent-rig.js';

export const AUDIO = Buffer.from([1, 2, 3, 4]);
export const BASE64 = AUDIO.toString('base64');

export function conversation(provider: string, config: Plain, target = {}): Conversation {
  const protocol = agentProtocols.get(provider)!;
  const url = protocol.knownUrl ?? 'wss://agent.example.com/';
  return protocol.converse(protocol.parseConfig(config), agentTarget({ protocol: provider, url, ...target }));
}

/** Everything that the messages make a conversation do, in order. */
export function does(c: Conversation, ...messages: (object | Uint8Array | string)[]): unknown[] {
  const done: unknown[] = [];
  const parsed = (m: unknown) => (typeof m === 'string' ? JSON.parse(m) : m);
  const sink: Sink = {
    send: (m) => done.push(['send', parsed(m)]),
    audio: (bytes, itemId) => done.push(itemId === undefined ? ['audio', [...bytes]] : ['audio', [...bytes], itemId]),
    audioOf: () => done.push(['audioOf']),
    clear: () => done.push(['clear']),
    mark: (name) => done.push(['mark', name]),
    event: (event) => done.push(['event', event]),
    ready: () => done.push(['ready']),
    warn: (code) => done.push(['warn', code]),
    garbage: (code) => done.push(['garbage', code]),
    said: (text) => done.push(['said', text]),
    saidAll: () => done.push(['saidAll']),
    hangUp: () => done.push(['hangUp']),
    fail: ({ reason }) => done.push(['fail', reason]),
    renew: (withinMs) => done.push(withinMs === undefined ? ['renew'] : ['renew', withinMs]),
  };
  for (const message of messages) {
    const raw = typeof message === 'string' || message instanceof Uint8Array ? message : JSON.stringify(message);
    c.receive(raw, sink);
  }
  return done;
}

export const bytes = [1, 2, 3, 4];
export const caller = (text: string) => ['event', { type: 'transcript', speaker: 'caller', text }];
