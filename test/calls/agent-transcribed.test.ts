/** Calls with agents that send no transcripts: Trunkline writes them, of what was heard. The server's text is the tone that it hears. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { linearToUlaw } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { type HearingServer, startHearingServer } from '../support/hearing-server.js';
import { endJoined, joinTwo } from '../support/joined-call.js';
import { RawAgent } from '../support/raw-agent.js';

let app: TestApp;
let server: HearingServer;
let nextNumber = 19995558100;
const agents: RawAgent[] = [];

beforeAll(async () => {
  server = await startHearingServer();
  app = await startTestApp({ TRUNKLINE_TRANSCRIPTION_URL: server.url }, { t1: 100, t2: 400, t4: 500 });
}, 60_000);

afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.close()));
  await app.end();
  await server.close();
});

/** A bot that says a tone as soon as the call begins, and the caller's tones after some silence. */
async function call(
  options: {
    config?: object;
    agentMs?: number;
    agentHz: number;
    silenceMs?: number;
    callerHz: number;
    callerMs?: number;
    durationMs?: number;
  },
  during: (agent: RawAgent) => Promise<void> = async () => {},
): Promise<CallRecord> {
  const {
    config = { transcribe: true },
    agentHz,
    agentMs = 1000,
    callerHz,
    callerMs = 800,
    silenceMs = 2500,
  } = options;
  const agent = await RawAgent.open();
  agents.push(agent);
  const number = `+${nextNumber++}`;
  await app.connectNumber(number, agent.url, { protocol: 'raw', ...config });
  const speech = {
    kind: 'samples' as const,
    samples: Int16Array.from([
      ...new Int16Array(silenceMs * 8),
      ...tone({ frequencyHz: callerHz, durationMs: callerMs }),
      ...new Int16Array(60_000 * 8),
    ]),
  };
  const { durationMs = silenceMs + callerMs + 1500 } = options;
  const calling = phoneCalls(app, number, { durationMs, speech });
  await vi.waitFor(() => expect(agent.texts.some(({ event }) => event === 'start')).toBe(true), 10_000);
  agent.say(new Uint8Array(tone({ frequencyHz: agentHz, durationMs: agentMs }).buffer));
  await during(agent);
  await calling;
  return app.finishedCall(number);
}

const finals = (record: CallRecord) =>
  record.events.filter(({ event_type }) => event_type === 'transcript.final').map(({ event_data }) => event_data);
const lines = (record: CallRecord) => record.transcript?.split('\n') ?? [];
const heardAs = (hz: number) => server.heard.filter((each) => Math.abs(each.hz - hz) < 5);

describe.concurrent('a transcript that Trunkline writes', () => {
  it('has both sides, in order and with their times', async () => {
    const record = await call({ agentHz: 440, callerHz: 700 });
    expect(lines(record)).toEqual(['agent: 440 hertz', 'caller: 700 hertz']);
    const [agent, caller] = finals(record);
    expect(agent).toMatchObject({ speaker: 'agent', text: '440 hertz' });
    const beganMs = [agent, caller].map((event) => Date.parse(String(event?.started_at)));
    const answeredMs = Date.parse(String(record.answered_at));
    expect(Math.abs((beganMs[1] as number) - answeredMs - 2300)).toBeLessThan(500);
    expect(beganMs[0]).toBeLessThan(beganMs[1] as number);
    expect(heardAs(700)[0]?.sampleRateHz).toBe(16_000);
  });

  it('has of the agent what was heard, not what was sent', async () => {
    const record = await call({ agentHz: 520, agentMs: 8000, callerHz: 760, silenceMs: 4000 }, async (agent) => {
      await vi.waitFor(() => expect(agent.heard.length).toBeGreaterThan(100), 10_000); // two seconds of the caller
      agent.tell({ event: 'clear' });
    });
    expect(lines(record)).toEqual(['agent: 520 hertz', 'caller: 760 hertz']);
    expect(heardAs(520)[0]?.ms).toBeGreaterThan(500);
    expect(heardAs(520)[0]?.ms).toBeLessThan(5000);
  });

  it('has the words in which the caller hung up', async () => {
    const record = await call({ agentHz: 470, callerHz: 820, callerMs: 30_000, durationMs: 4000 });
    expect(lines(record)).toEqual(['agent: 470 hertz', 'caller: 820 hertz']);
  });

  it('leaves a speaker to an agent that sends transcripts after all', async () => {
    const record = await call({ agentHz: 560, agentMs: 3000, callerHz: 880, silenceMs: 5000 }, async (agent) => {
      agent.tell({ event: 'transcript', speaker: 'agent', text: 'my own words' });
    });
    expect(lines(record)).toEqual(['agent: my own words', 'caller: 880 hertz']);
    expect(heardAs(560)).toEqual([]);
  });

  it('has both phones of a call whose agent is behind SIP', async () => {
    const joined = await joinTwo(app, { config: { transcribe: true } });
    const saying = (frequencyHz: number) => {
      const samples = tone({ frequencyHz, durationMs: 1000 });
      return (i: number) =>
        Uint8Array.from(samples.subarray(i * 160, (i + 1) * 160), (s) => linearToUlaw[s & 0xffff] ?? 0);
    };
    await joined.agent.rtp.talk(50, saying(1060));
    await joined.caller.rtp.talk(50, saying(1120));
    const record = await endJoined(app, joined);
    expect(lines(record)).toEqual(['agent: 1060 hertz', 'caller: 1120 hertz']);
  });

  it('is not written without the setting, and asks the server nothing', async () => {
    const record = await call({ config: {}, agentHz: 600, callerHz: 940 });
    expect(record.transcript).toBeNull();
    expect([...heardAs(600), ...heardAs(940)]).toEqual([]);
  });

  it('says what it lacks, and the call goes on', async () => {
    server.instead = ({ hz }, response) => {
      if (Math.abs(hz - 640) > 5) return false;
      response.writeHead(500).end();
      return true;
    };
    const record = await call({ agentHz: 640, callerHz: 1000 });
    expect(lines(record)).toEqual(['caller: 1000 hertz']);
    const warning = record.events.find(({ event_type }) => event_type === 'agent.warning');
    expect(warning?.event_data).toEqual({
      code: 'transcript_incomplete',
      message: expect.stringMatching(
        /^The transcript lacks 1\.\d s of the agent: The transcription engine answered 500\.$/,
      ),
    });
    expect(record.status).toBe('completed');
  });
});
