import { expect, it } from 'vitest';
import type { MediaSession } from '../../media/engine.js';
import { Apology } from '../../src/call/agent/apology.js';
import { Call } from '../../src/call/core/call.js';
import { CallParty } from '../../src/call/party/party.js';
import type { Calls } from '../../src/store/calls/calls.js';

/** A party whose agent talks with it. */
class AnsweredParty extends CallParty {
  constructor(call: Call) {
    super({ call, role: 'caller', facts: {} as never, mode: 'live' });
    const never = new Promise<never>(() => {});
    this.useSession({ attach() {}, onEvent: () => () => {}, lost: never, held: null } as unknown as MediaSession);
    void this.control.connect({ kind: 'agent', attach() {}, async detach() {}, onKey() {}, onHold() {} });
    this.open();
  }

  override async answer(): Promise<never> {
    throw new Error('It is answered.');
  }
}

function answeredCall() {
  const records = { event() {}, pickedUp() {}, answered() {} } as unknown as Calls;
  const begun = { id: 'c', createdAt: new Date(), startedAtMs: performance.now(), funds: null };
  const call = new Call(records, begun, 'inbound');
  call.pickedUp(performance.now());
  call.answer();
  return call;
}

it('is said once, whatever else breaks meanwhile, and the first reason stays', async () => {
  const said: { done(): void; signal: AbortSignal }[] = [];
  const speak = (_session: unknown, _say: unknown, signal: AbortSignal) =>
    new Promise<void>((resolve) => said.push({ done: resolve, signal }));
  const apology = new Apology({ speak }, 'Sorry.', null as never);
  const call = answeredCall();
  const party = new AnsweredParty(call);
  const first = apology.end(party, { cause: 'agent_error', source: 'agent', detail: 'first' });
  await apology.end(party, { cause: 'agent_error', source: 'system', detail: 'second' });
  expect([said.length, call.ending]).toEqual([1, null]);
  said[0]!.done();
  await first;
  expect(call.ending).toEqual({ cause: 'agent_error', source: 'agent', detail: 'first' });
});

it('ends at once when the far side hangs up, and the record keeps what broke the call', async () => {
  const speak = (_session: unknown, _say: unknown, signal: AbortSignal) =>
    new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const apology = new Apology({ speak }, 'Sorry.', null as never);
  const call = answeredCall();
  const lost = apology.end(new AnsweredParty(call), {
    cause: 'webhook_error',
    source: 'system',
  });
  call.end({ cause: 'normal_clearing', source: 'caller' });
  await lost;
  expect(call.ending).toEqual({ cause: 'webhook_error', source: 'system' });
});
