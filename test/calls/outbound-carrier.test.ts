import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { HandPhone } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';

/** Carriers that do what none should, made by hand. */
let app: TestApp;
let agent: ScriptedAgent;
let agentBytes = 0;
let nextNumber = 12025554001;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  agent = await startScriptedAgent({
    onBinary: (bytes) => {
      agentBytes += bytes.length;
    },
  });
});
afterAll(async () => {
  await agent.close();
  await app.end();
});

/** The INVITE that a carrier gets. */
async function called() {
  const carrier = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  const trunk = await addTrunk(app, [`sip:127.0.0.1:${carrier.sip.port}`]);
  const to = `+${nextNumber++}`;
  const ids = await app.connectNumber(`+${nextNumber++}`, agent.url, { protocol: 'raw' });
  placeOutbound(app, { ...ids, to });
  const invite = await carrier.sip.next('INVITE');
  const close = async () => {
    await app.api('DELETE', `/v1/trunks/${trunk}`);
    await carrier.close();
  };
  return { carrier, invite, to, close };
}

it('a flood of 183, each with another answer, is early media once; nothing of it reaches the agent, and no answer is made of it', async () => {
  const { carrier, invite, to, close } = await called();
  carrier.rtp.dial(invite.body);
  for (let i = 0; i < 300; i++)
    carrier.sip.respond(invite, 183, carrier.contactLine, carrier.rtp.sdp(), `fork-${i % 7}`);
  await eventually(() => agent.connections() > 0, 'the agent');
  await carrier.rtp.talk(25, () => new Uint8Array(160).fill(0x20));
  carrier.sip.respond(invite, 486, [], '', 'fork-0');
  await carrier.sip.next('ACK');
  const call = await app.finishedCall(to);
  expect(call).toMatchObject({ status: 'busy', hangup_cause: 'user_busy', answered_at: null, duration: 0 });
  expect(call.events.filter((event) => event.event_type === 'call.early_media')).toHaveLength(1);
  expect(agentBytes).toBe(0);
  await close();
});

it('of two answers of a fork one is kept, and the other gets ACK and BYE', async () => {
  const { carrier, invite, to, close } = await called();
  carrier.answer(invite);
  carrier.sip.respond(invite, 200, carrier.contactLine, carrier.rtp.sdp(), 'another');
  const bye = await carrier.sip.next('BYE');
  expect(bye.header('to')).toContain('tag=another');
  carrier.sip.respond(bye, 200);
  await carrier.rtp.talk(5, () => new Uint8Array(160).fill(0x20));
  await eventually(() => agentBytes > 0, 'the call to go on');
  await carrier.hangUp();
  const call = await app.finishedCall(to);
  expect(call).toMatchObject({ status: 'completed', hangup_source: 'callee' });
  expect(call.events.filter((event) => event.event_type === 'call.answered')).toHaveLength(1);
  await close();
});

it('an answer that crosses our CANCEL is hung up: no conversation, one record', async () => {
  const { carrier, invite, to, close } = await called();
  carrier.sip.respond(invite, 180, carrier.contactLine);
  await eventually(() => agent.connections() > 0, 'the agent');
  const { data } = await app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls');
  const asked = app.api('POST', `/v1/calls/${data.find((call) => call.to_number === to)?.id}/hangup`);
  const cancel = await carrier.sip.next('CANCEL');
  carrier.answer(invite); // before it has read the CANCEL
  carrier.sip.respond(cancel, 200);
  await carrier.sip.next('ACK');
  carrier.sip.respond(await carrier.sip.next('BYE'), 200);
  await asked;
  const call = await app.finishedCall(to);
  expect(call).toMatchObject({
    status: 'no_answer',
    hangup_cause: 'originator_cancel',
    hangup_source: 'api',
    duration: 0,
  });
  await close();
});
