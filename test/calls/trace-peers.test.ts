/** The trace of a call names the peer of every message, whoever sent it: trunk, registered phone, agent. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SipTraceEntry } from '../../sip/leg.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { endJoined, HandPhone, joinTwo } from '../support/joined-call.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';

let app: TestApp;
let agent: ScriptedAgent;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  agent = await startScriptedAgent();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(async () => {
  await app.end();
  await agent.close();
});

async function traceOf(id: string): Promise<string[]> {
  const { messages } = await app.api<{ messages: SipTraceEntry[] }>('GET', `/v1/calls/${id}/trace`);
  return messages.map(
    ({ direction, peer, message }) => `${direction} ${message.split(' ', 1)} ${peer?.address}:${peer?.port}`,
  );
}

describe('the trace', () => {
  it('of a call that we place names the gateway, also of one that nobody answers', async () => {
    const callee = await HandPhone.open();
    closing.push(() => callee.close());
    const trunk = await addTrunk(app, [`sip:127.0.0.1:${callee.sip.port}`]);
    closing.push(() => app.api('DELETE', `/v1/trunks/${trunk}`));
    const { endpointId, numberId } = await app.connectNumber('+12025554901', agent.url, { protocol: 'raw' });
    const id = placeOutbound(app, { to: '+12025554902', numberId, endpointId });
    callee.sip.serverPort = app.sip.addresses[0]?.port ?? 0;
    callee.answer(await callee.sip.next('INVITE'));
    await callee.sip.next('ACK');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    callee.sip.respond(await callee.sip.next('BYE'), 200);
    await app.finishedCall('+12025554902');
    const at = `127.0.0.1:${callee.sip.port}`;
    expect(await traceOf(id)).toEqual(
      expect.arrayContaining([`sent INVITE ${at}`, `sent ACK ${at}`, `sent BYE ${at}`, `received SIP/2.0 ${at}`]),
    );

    const silent = placeOutbound(app, { to: '+12025554903', numberId, endpointId, ringTimeoutMs: 300 });
    await app.finishedCall('+12025554903');
    expect(await traceOf(silent)).toContain(`sent INVITE ${at}`);
  });

  it('of a caller without an ACK names the peer of our BYE', async () => {
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    closing.push(() => caller.close());
    await app.connectNumber('+12025554911', agent.url, { protocol: 'raw' });
    caller.invite('+12025554911');
    caller.sip.respond(await caller.sip.next('BYE', 12_000), 200);
    const { id } = await app.finishedCall('+12025554911');
    const lines = await traceOf(id);
    expect(lines).toContain(`sent BYE 127.0.0.1:${caller.sip.port}`);
    expect(lines.filter((line) => line.includes('undefined'))).toEqual([]);
  }, 20_000);

  it('of an agent behind SIP names it', async () => {
    const joined = await joinTwo(app);
    const agentCallId = joined.invite.header('call-id');
    const sent = app.sip.trace(agentCallId).filter(({ direction }) => direction === 'sent');
    expect(sent.map(({ peer }) => peer?.port)).toEqual([joined.agent.sip.port, joined.agent.sip.port]);
    await endJoined(app, joined);
  });
});
