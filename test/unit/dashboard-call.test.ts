import { describe, expect, it } from 'vitest';
import { delayLines } from '../../dashboard/src/call/delay-lines.js';
import { markersOf } from '../../dashboard/src/call/markers.js';
import { happensNow } from '../../dashboard/src/call/now.js';
import { turnsOf } from '../../dashboard/src/call/turn-list.js';
import { utterances } from '../../dashboard/src/call/utterances.js';

const at = (ms: number) => new Date(1_000_000 + ms).toISOString();
const event = (event_type: string, ms: number, event_data: Record<string, unknown> = {}) => ({
  ...{ id: `${event_type} ${ms}`, event_type, event_data, created_at: at(ms) },
});
const front = { endpoint_id: 'front' };

describe('what happens now', () => {
  const began = [event('call.initiated', 0), event('call.ringing', 10)];
  const talking = [
    ...began,
    event('agent.connecting', 20, front),
    event('agent.connected', 90, front),
    event('call.answered', 100),
  ];
  const moved = { to: '+12025550199' };
  it.each([
    ['a call that began', began.slice(0, 1), 'Being routed', null, 0],
    ['a call that rings', began, 'Ringing', null, 10],
    ['an agent that is being reached', talking.slice(0, 3), 'Connecting to', 'front', 20],
    ['a conversation', talking, 'Talking with', 'front', 100],
    ['a webhook call', [...began, event('call.answered', 100)], 'Following the actions of', 'number', 100],
    ['a hold', [...talking, event('call.held', 500, { by: 'caller' })], 'On hold, by the caller', null, 500],
    ['after a hold', [...talking, event('call.held', 5), event('call.resumed', 6)], 'Talking with', 'front', 100],
    ['a transfer', [...talking, event('transfer.started', 600, moved)], 'Being transferred to +12025550199', null, 600],
    [
      'a transferred call',
      [...talking, event('transfer.started', 6, moved), event('transfer.completed', 700, moved)],
      ...(['Transferred; talking with +12025550199', null, 700] as const),
    ],
    [
      'a transfer that failed',
      [...talking, event('transfer.started', 6, moved), event('transfer.failed', 7, moved)],
      ...(['Talking with', 'front', 100] as const),
    ],
    [
      'a conference',
      [...talking, event('conference.joined', 800, { name: 'Board' })],
      ...(['In the conference Board', null, 800] as const),
    ],
    [
      'another agent',
      [...talking, event('agent.failed', 900, front), event('agent.connecting', 910, { endpoint_id: 'night' })],
      ...(['Connecting to', 'night', 910] as const),
    ],
  ])('is said of %s', (_what, events, words, endpointId, sinceMs) => {
    const now = happensNow({ created_at: at(0), endpoint_id: 'number', events });
    expect(now).toEqual({ words, endpointId, since: at(sinceMs), also: [] });
  });

  it('names a recording, and its pause', () => {
    const call = { created_at: at(0), endpoint_id: null };
    const recorded = [...talking, event('recording.started', 110)];
    expect(happensNow({ ...call, events: recorded }).also).toEqual(['recording']);
    expect(happensNow({ ...call, events: [...recorded, event('recording.paused', 120)] }).also).toEqual([
      'recording paused',
    ]);
    expect(happensNow({ ...call, events: [...recorded, event('recording.completed', 130)] }).also).toEqual([]);
  });
});

it('the turns of a running call are those that its events have told', () => {
  const told = { speaker: 'agent', started_at: at(5), duration_ms: 900, response_ms: 480, talk_over: false };
  const events = [event('turn.completed', 905, told), event('mark.reached', 910)];
  const turn = { speaker: 'agent', started_at: at(5), duration_ms: 900, response_ms: 480 } as const;
  expect(turnsOf({ turns: [], events })).toEqual([turn]);
  const stored = { ...turn, response_ms: 481 };
  expect(turnsOf({ turns: [stored], events })).toEqual([stored]);
});

describe('the transcript', () => {
  const turn = (speaker: string, ms: number, duration_ms: number) => ({ speaker, started_at: at(ms), duration_ms });
  const said = (speaker: string, ms: number, text: string) => event('transcript.final', ms, { speaker, text });
  it('stands at the nearest turn of its speaker, whether it was written before, during or after it', () => {
    const call = {
      ...{ created_at: at(0), answered_at: at(0) },
      // A barge-in cut the first turn of the agent in two.
      turns: [
        turn('agent', 400, 2_000),
        turn('agent', 3_000, 500),
        turn('caller', 5_000, 1_000),
        turn('agent', 7_000, 2_000),
      ],
      events: [
        ...[event('recording.started', 100), said('agent', 390, 'Good evening'), said('agent', 6_900, 'Of course')],
        said('caller', 6_400, 'A table please'),
      ],
    };
    expect(utterances(call).map(({ speaker, atMs, words }) => [speaker, atMs, words[1]?.atMs])).toEqual([
      ['agent', 300, 300 + (2_000 * 5) / 13],
      ['caller', 4_900, 4_900 + (1_000 * 2) / 15],
      ['agent', 6_900, 6_900 + (2_000 * 3) / 10],
    ]);
  });

  it('stands where it was written if no turn is near', () => {
    const call = {
      ...{ created_at: at(0), answered_at: at(0), turns: [turn('agent', 400, 500)] },
      events: [said('agent', 9_000, 'Late'), said('caller', 300, 'Hello')],
    };
    expect(utterances(call).map(({ atMs }) => atMs)).toEqual([300, 9_000]);
  });
});

it('events in a recording are marked from its start to its end, in words', () => {
  const events = [
    ...[event('agent.connected', 10, front), event('call.answered', 50), event('recording.started', 60)],
    ...[event('dtmf.received', 2_060, { digit: '5' }), event('barge_in.detected', 3_060)],
    ...[event('transfer.failed', 4_060, { to: '+12025550199' }), event('agent.disconnected', 9_000)],
  ];
  expect(markersOf(events, Date.parse(at(60)), 5_000).map(({ atMs, words, tone }) => [atMs, words, tone])).toEqual([
    [0, 'Agent connected', 'good'],
    [2_000, 'Key 5 pressed', 'quiet'],
    [3_000, 'Barge-in', 'warn'],
    [4_000, 'Transfer to +12025550199 failed', 'bad'],
  ]);
});

it('the delay over time has a line for each hop that was measured, and the answers of the agent at their times', () => {
  const spread = (p95_ms: number) => ({ p95_ms });
  const samples = [
    { at: at(5_000), jitter_ms: 2, rtt_ms: 30 },
    {
      ...{ at: at(10_000), jitter_ms: 3 },
      recent_audio_delay: { caller_network: spread(44), gateway_uplink: spread(1), gateway_playout: null },
    },
    { at: at(10_200), jitter_ms: 99 }, // the end of the call: a few packets
  ];
  const turns = [
    { speaker: 'caller', started_at: at(6_000), response_ms: 300 },
    { speaker: 'agent', started_at: at(7_500), response_ms: 480 },
    { speaker: 'agent', started_at: at(9_000), response_ms: null },
  ];
  expect(delayLines(samples, turns, Date.parse(at(0)))).toEqual({
    atSec: [5, 7.5, 10],
    lines: [
      { name: 'network', values: [30, null, 44] },
      { name: 'jitter', values: [2, null, 3] },
      { name: 'uplink', values: [null, null, 1] },
      { name: 'thinking', values: [null, 480, null] },
    ],
  });
});
