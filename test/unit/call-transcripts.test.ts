/** The transcript that Trunkline writes itself: limits, failures and the end of the call, with media and an engine of the test's own. */
import { EventEmitter } from 'node:events';
import type { MessagePort } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import type { MediaEvent, MediaSession, TapMessage } from '../../media/engine.js';
import { CallTranscripts } from '../../src/call/agent/call-transcripts.js';
import { Call } from '../../src/call/core/call.js';
import type { Calls } from '../../src/store/calls/calls.js';
import type { EndpointForCall } from '../../src/store/routing/endpoints.js';
import { type TranscriptionEngine, TranscriptionError } from '../../src/transcription/engine.js';

function begunCall() {
  const events: [string, Record<string, unknown>][] = [];
  const records = {
    event: (_id: string, type: string, data: Record<string, unknown>) => events.push([type, data]),
  } as unknown as Calls;
  const begun = { id: 'c', createdAt: new Date(), startedAtMs: performance.now(), funds: null };
  return { call: new Call(records, begun, 'inbound'), events };
}

/** A session whose tap gets what the test sends. */
function tappedSession() {
  const media = new EventEmitter();
  let port: MessagePort | null = null;
  const state = { taps: 0, stops: 0 };
  const end = () => {
    port?.postMessage('end' satisfies TapMessage);
    port?.close();
    port = null;
  };
  const session = {
    held: null,
    onEvent: (listener: (event: MediaEvent) => void) => {
      media.on('event', listener);
      return () => media.off('event', listener);
    },
    tap: (given: MessagePort) => {
      port = given;
      state.taps += 1;
      return {
        ended: new Promise(() => {}),
        stop: async () => {
          state.stops += 1;
          end();
        },
      };
    },
  } as unknown as MediaSession;
  const hear = (track: 'caller' | 'agent', startMs: number, samples: Int16Array) =>
    port?.postMessage({ track, startMs, samples, droppedMs: 0 } satisfies TapMessage);
  /** A word of half a second, and a second of silence. */
  const word = (track: 'caller' | 'agent', startMs: number) => {
    const said = new Int16Array(24_000);
    said.set(tone({ frequencyHz: 500, durationMs: 500, sampleRateHz: 16_000 }));
    hear(track, startMs, said);
  };
  return { session, state, hear, word, end, media };
}

const endpoint = (more: Partial<EndpointForCall> = {}, config: object = { transcribe: true }) =>
  ({ provider: 'custom', target: 'wss://bot.example/', providerConfig: config, ...more }) as EndpointForCall;

const engineOf = (transcribe: TranscriptionEngine['transcribe']): TranscriptionEngine => ({ transcribe });
const answering = (text = 'words') => engineOf(vi.fn(async () => ({ text, model: 'm' })));

const warnings = (events: [string, Record<string, unknown>][]) =>
  events.filter(([type]) => type === 'agent.warning').map(([, data]) => [data.code, data.message]);

describe('the transcript of a call', () => {
  it.each([
    ['a stream that asks for it', endpoint(), false, true],
    ['a stream, by the setting', endpoint({}, {}), true, true],
    ['a stream that says nothing', endpoint({}, {}), false, false],
    ['a stream that does not want it', endpoint({}, { transcribe: false }), true, false],
    ['a provider that writes transcripts', endpoint({ provider: 'openai' }), true, false],
    ['the same behind SIP', endpoint({ provider: 'openai', target: 'sip:x@sip.example' }), false, true],
    [
      'Azure OpenAI with a deployment that transcribes',
      endpoint({ provider: 'azure_openai' }, { transcribe: true, transcription_model: 'my-transcribe' }),
      true,
      false,
    ],
    ['Azure OpenAI without one', endpoint({ provider: 'azure_openai' }), false, true],
    ['a stream protocol without transcripts', endpoint({}, { protocol: 'twilio', transcribe: true }), false, true],
  ])('of %s', (_name, to, isDefault, isTapped) => {
    const { call } = begunCall();
    const { session, state } = tappedSession();
    new CallTranscripts({ engine: () => answering(), isDefault }).agentBegins(call, session, to);
    expect(state.taps).toBe(isTapped ? 1 : 0);
  });

  it('has both sides in the order in which they spoke, with times, whatever is recognized first', async () => {
    const { call, events } = begunCall();
    const { session, word, end } = tappedSession();
    const waiting: (() => void)[] = [];
    const engine = engineOf(
      (_file, _signal, expected) =>
        new Promise((resolve) => {
          const text = `${expected?.language} ${waiting.length}`;
          waiting.push(() => resolve({ text, model: 'm' }));
        }),
    );
    const transcripts = new CallTranscripts({ engine: () => engine, isDefault: false });
    transcripts.agentBegins(call, session, endpoint({}, { transcribe: true, language: 'de-AT' }));
    word('agent', 0);
    word('caller', 2000);
    await vi.waitFor(() => expect(waiting).toHaveLength(2));
    waiting[1]?.();
    await vi.waitFor(() => expect(events).toHaveLength(1));
    waiting[0]?.();
    await vi.waitFor(() => expect(events).toHaveLength(2));
    expect(call.transcript.text).toBe('agent: de-AT 0\ncaller: de-AT 1');
    const [said] = events.map(([, data]) => data);
    expect(said).toEqual({
      speaker: 'caller',
      text: 'de-AT 1',
      started_at: expect.stringMatching(/^\d{4}-.*Z$/),
      duration_ms: expect.any(Number),
    });
    expect(said?.duration_ms).toBeGreaterThan(500);
    expect(said?.duration_ms).toBeLessThan(950);
    end();
  });

  it('names what it lacks once, and at the end how much: an engine that fails, and one that has too much to do', async () => {
    const { call, events } = begunCall();
    const { session, word } = tappedSession();
    const engine = engineOf(async () => {
      throw new TranscriptionError('Too much speech waits to be recognized.', undefined, true);
    });
    const transcripts = new CallTranscripts({ engine: () => engine, isDefault: true });
    transcripts.agentBegins(call, session, endpoint());
    for (const at of [0, 2000, 4000]) word('caller', at);
    await vi.waitFor(() => expect(warnings(events)).toHaveLength(1));
    await call.closeBeside();
    expect(warnings(events)).toEqual([
      [
        'transcript_incomplete',
        expect.stringMatching(/^The transcript lacks 0\.\d s of the caller: Too much speech waits to be recognized\.$/),
      ],
      ['transcript_incomplete', '3 utterances are not in the transcript.'],
    ]);
    expect(call.transcript.text).toBeNull();
  });

  it('never has more than 64 utterances of all calls at the engine', async () => {
    const { call, events } = begunCall();
    const { session, word, end } = tappedSession();
    let asked = 0;
    const engine = engineOf((_file, signal) => {
      asked += 1;
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
    });
    const transcripts = new CallTranscripts({ engine: () => engine, isDefault: true });
    transcripts.agentBegins(call, session, endpoint());
    for (let i = 0; i < 70; i += 1) word('caller', i * 2000);
    await vi.waitFor(() => expect(asked).toBe(64));
    await vi.waitFor(() => expect(warnings(events)).toHaveLength(1));
    expect(warnings(events)[0]?.[1]).toMatch(/Too much speech waits to be recognized/);
    end();
    vi.useFakeTimers();
    try {
      const closing = call.closeBeside();
      await vi.advanceTimersByTimeAsync(5000);
      await closing; // not later, although the engine never answers
    } finally {
      vi.useRealTimers();
    }
    expect(warnings(events).at(-1)).toEqual(['transcript_incomplete', '70 utterances are not in the transcript.']);
    const later = begunCall();
    const other = tappedSession();
    transcripts.agentBegins(later.call, other.session, endpoint());
    other.word('caller', 0);
    await vi.waitFor(() => expect(asked).toBe(65)); // all places are free again
    other.end();
    vi.useFakeTimers();
    try {
      const closing = later.call.closeBeside();
      await vi.advanceTimersByTimeAsync(5000);
      await closing;
    } finally {
      vi.useRealTimers();
    }
  });

  it('has the words that the end of the call broke off', async () => {
    const { call } = begunCall();
    const { session, hear } = tappedSession();
    const transcripts = new CallTranscripts({ engine: () => answering('broken off'), isDefault: true });
    transcripts.agentBegins(call, session, endpoint());
    hear('caller', 0, tone({ frequencyHz: 500, durationMs: 800, sampleRateHz: 16_000 }));
    await call.closeBeside();
    expect(call.transcript.text).toBe('caller: broken off');
  });

  it('is left to a provider that was first with a speaker, until another agent talks', async () => {
    const { call } = begunCall();
    const first = tappedSession();
    const engine = answering('ours');
    const transcripts = new CallTranscripts({ engine: () => engine, isDefault: true });
    transcripts.agentBegins(call, first.session, endpoint());
    expect(call.transcript.isWrittenBy('provider', 'agent')).toBe(true);
    for (const track of ['agent', 'caller'] as const) first.word(track, 0);
    await vi.waitFor(() => expect(call.transcript.text).toBe('caller: ours'));
    expect(call.transcript.isWrittenBy('provider', 'caller')).toBe(false);
    const second = tappedSession();
    transcripts.agentBegins(call, second.session, endpoint());
    expect(first.state.stops).toBe(1);
    second.word('agent', 0);
    await vi.waitFor(() => expect(call.transcript.text).toBe('caller: ours\nagent: ours'));
    await call.closeBeside();
  });

  it('does not have the music of a caller who holds', async () => {
    const { call } = begunCall();
    const { session, word, media } = tappedSession();
    const engine = answering('agent only');
    const transcripts = new CallTranscripts({ engine: () => engine, isDefault: true });
    transcripts.agentBegins(call, session, endpoint());
    media.emit('event', { type: 'held', sends: true });
    for (const track of ['caller', 'agent'] as const) word(track, 0);
    await vi.waitFor(() => expect(call.transcript.text).toBe('agent: agent only'));
    media.emit('event', { type: 'resumed' });
    word('caller', 4000);
    await vi.waitFor(() => expect(engine.transcribe).toHaveBeenCalledTimes(2));
    await call.closeBeside();
    expect(media.listenerCount('event')).toBe(0);
  });

  it('says what to do when there is no engine', () => {
    const { call, events } = begunCall();
    const { session, state } = tappedSession();
    new CallTranscripts({ engine: () => null, isDefault: true }).agentBegins(call, session, endpoint());
    expect(state.taps).toBe(0);
    expect(warnings(events)).toEqual([
      ['transcript_unavailable', expect.stringMatching(/`npx trunkline setup speech`.*TRUNKLINE_TRANSCRIPTION_URL/)],
    ]);
  });
});
