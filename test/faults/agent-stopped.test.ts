/** An agent whose process stands still in mid-call, on a whole gateway. */
import { afterAll, expect, it } from 'vitest';
import { endProcess, startAgentProcess } from '../support/agent-process.js';
import { faultScene } from '../support/fault-scene.js';
import { TalkingCaller } from '../support/talking-caller.js';

const number = '+19995561900';
let agent: Awaited<ReturnType<typeof startAgentProcess>>;

const scene = faultScene({
  environment: { TRUNKLINE_LOG_LEVEL: 'silent' },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  limitMs: 20_000,
  prepare: async (app) => {
    agent = await startAgentProcess();
    const target = `ws://127.0.0.1:${agent.port}/echo`;
    await app.connectNumber(number, target, { protocol: 'raw', encoding: 'ulaw' });
  },
});
afterAll(() => endProcess(agent.child));

it('an agent stopped by SIGSTOP while it talks: found within 20 s, silence until then, BYE', async () => {
  const caller = await TalkingCaller.call(scene.ends, number);
  await caller.phone.until(() => caller.loud > 5, 'its own words');
  agent.child.kill('SIGSTOP');
  const stoppedMs = performance.now();
  await caller.far.ended(25_000);
  caller.close();
  expect(performance.now() - stoppedMs).toBeLessThan(20_000);
  await expect.poll(async () => (await scene.recordOf(caller.far))?.status).toBe('failed');
  expect(await scene.recordOf(caller.far)).toMatchObject({ hangupCause: 'agent_error', hangupSource: 'agent' });
  const numbers = caller.phone.heard.map(({ sequence }) => sequence);
  expect(numbers.every((n, i) => i === 0 || n === ((numbers[i - 1]! + 1) & 0xffff))).toBe(true);
  expect(caller.phone.heard.at(-1)!.payload.every((byte) => byte === 0xff)).toBe(true);
}, 60_000);
