/** An agent that is lost in the middle of a call (P1, P4): the caller is told before it is hung up on, and the record keeps the reason. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import type { TestApp } from '../support/app.js';
import { FarEnds, farSdp } from '../support/far-ends.js';
import { faultScene } from '../support/fault-scene.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { TalkingCaller } from '../support/talking-caller.js';

/** Silent until it breaks: all that a caller hears is ours. */
const breaks: AgentScript = {
  onText: ({ event }, socket: WebSocket) => {
    if (event === 'start') setTimeout(() => socket.terminate(), 100);
  },
};
const leaves: AgentScript = { onText: ({ event }, socket) => event === 'start' && socket.close(1000) };
const agents: ScriptedAgent[] = [];
const [broken, replaced, left] = ['+19995563001', '+19995563002', '+19995563003'] as const;

/** A speech server that cannot speak. */
const mute = createServer((_request, response) => response.writeHead(500).end()).listen(0, '127.0.0.1');
await once(mute, 'listening');

async function addNumbers(app: TestApp) {
  const endpoint = async (script: AgentScript) => {
    const agent = await startScriptedAgent(script);
    agents.push(agent);
    const body = {
      name: 'A',
      type: 'agent',
      target: agent.url,
      provider_config: { protocol: 'raw', encoding: 'ulaw' },
    };
    return (await app.api<{ id: string }>('POST', '/v1/endpoints', body)).id;
  };
  const first = await endpoint(breaks);
  await app.api('POST', '/v1/phone-numbers', { number: broken, endpoint_id: first });
  const second = { endpoint_id: first, fallback_endpoint_id: await endpoint({ upgrade: 503 }) };
  await app.api('POST', '/v1/phone-numbers', { number: replaced, ...second });
  await app.api('POST', '/v1/phone-numbers', { number: left, endpoint_id: await endpoint(leaves) });
}
afterAll(async () => {
  for (const agent of agents) await agent.close();
  mute.close();
});

const spoken = 'We are sorry. Goodbye.';
/** Spoken slowly enough for half a second of sound. */
const loudFrames = 25;

describe('an agent is lost', () => {
  const scene = faultScene({
    environment: { TRUNKLINE_LOG_LEVEL: 'silent', TRUNKLINE_APOLOGY: spoken },
    timersMs: { t1: 50, t2: 400, t4: 500 },
    prepare: async (app) => {
      await addNumbers(app);
      // the thread that speaks is opened once and stays
      const ends = await FarEnds.open(app.sip.addresses[0]!.port);
      const caller = await TalkingCaller.call(ends, broken);
      await caller.far.ended(15_000);
      caller.close();
      await ends.close();
    },
  });
  const ending = async (caller: TalkingCaller) => {
    await expect.poll(async () => (await scene.recordOf(caller.far))?.status).not.toBe('in_progress');
    const { status, hangupCause, hangupSource, events } = (await scene.recordOf(caller.far))!;
    return { ending: `${status} ${hangupCause} ${hangupSource}`, types: events.map(({ type }) => type) };
  };

  it.each([
    ['and nobody takes over', broken],
    ['and the next one refuses', replaced],
  ])('%s: words, then BYE', async (_, number) => {
    const caller = await TalkingCaller.call(scene.ends, number);
    await caller.far.ended(15_000);
    expect(caller.loud).toBeGreaterThan(loudFrames);
    caller.close();
    const { ending: how, types } = await ending(caller);
    expect(how).toBe('failed agent_error agent');
    expect(types.filter((type) => type === 'call.completed' || type === 'call.failed')).toHaveLength(1);
  });

  it('and the caller hangs up meanwhile: over at once, and the agent is still what broke it', async () => {
    const caller = await TalkingCaller.call(scene.ends, broken);
    await caller.phone.until(() => caller.loud > 3, 'the first words');
    await caller.bye();
    expect((await ending(caller)).ending).toBe('failed agent_error agent');
    const { completedAt, answeredAt } = (await scene.recordOf(caller.far))!;
    expect(Date.parse(String(completedAt)) - Date.parse(String(answeredAt))).toBeLessThan(1500);
  });

  it('that hangs up itself is nothing to be sorry for', async () => {
    const caller = await TalkingCaller.call(scene.ends, left);
    await caller.far.ended();
    expect(caller.loud).toBe(0);
    caller.close();
    expect((await ending(caller)).ending).toBe('completed agent_hangup agent');
  });
});

describe('an agent behind SIP', () => {
  const number = '+19995563004';
  let endpointId = '';
  const scene = faultScene({
    environment: { TRUNKLINE_LOG_LEVEL: 'silent', TRUNKLINE_APOLOGY: spoken, TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '1' },
    timersMs: { t1: 50, t2: 400, t4: 500 },
    prepare: async (app) => {
      ({ endpointId } = await app.connectNumber(number, 'sip:agent@127.0.0.1:9'));
    },
    before: async ({ app, ends }) => {
      await app.api('PATCH', `/v1/endpoints/${endpointId}`, { target: `sip:agent@127.0.0.1:${ends.port}` });
      ends.onInvite = (call, invite) => ends.respond(invite, 200, call.localTag, farSdp);
    },
  });

  it('whose audio never comes: words, then BYE to both', async () => {
    scene.baseline = null; // the thread that speaks is opened once and stays
    const caller = await TalkingCaller.call(scene.ends, number);
    await caller.far.ended(15_000);
    expect(caller.loud).toBeGreaterThan(loudFrames);
    caller.close();
    await expect.poll(async () => (await scene.recordOf(caller.far))?.status).toBe('failed');
    const { hangupCause, hangupSource } = (await scene.recordOf(caller.far))!;
    expect([hangupCause, hangupSource]).toEqual(['agent_error', 'system']);
  });
});

describe('a speech server that cannot speak', () => {
  const { port } = mute.address() as AddressInfo;
  const scene = faultScene({
    environment: {
      TRUNKLINE_LOG_LEVEL: 'silent',
      TRUNKLINE_APOLOGY: spoken,
      TRUNKLINE_TTS_URL: `http://127.0.0.1:${port}`,
    },
    timersMs: { t1: 50, t2: 400, t4: 500 },
    prepare: addNumbers,
  });
  it('leaves it to the offline voice, and the record says so', async () => {
    scene.baseline = null; // the thread that speaks is opened once and stays
    const caller = await TalkingCaller.call(scene.ends, broken);
    await caller.far.ended(15_000);
    expect(caller.loud).toBeGreaterThan(loudFrames);
    caller.close();
    await expect.poll(async () => (await scene.recordOf(caller.far))?.hangupCause).toBe('agent_error');
    const warning = (await scene.recordOf(caller.far))!.events.find(({ type }) => type === 'agent.warning');
    expect(warning?.data).toEqual({
      code: 'speech_server_failed',
      message: 'The speech server answered 500. The offline voice spoke instead.',
    });
  });
});
