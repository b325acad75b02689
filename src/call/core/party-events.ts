/** What the media session of one party tells: how it is listened to, and what becomes part of the call's record. */
import type { MediaEvent, MediaSession } from '../../../media/engine.js';
import type { Call } from './call.js';

/** Whose phone it is, in the record of `call`. */
export type PartyRole = 'caller' | 'callee' | 'agent';

/**
 * The one way to listen to a session: an exception in `on` ends `call`, and neither the process nor what others hear. Answers how to stop.
 * Without that it lasts until the session is closed, its last turns included.
 */
export function observe(session: MediaSession, call: Call, on: (event: MediaEvent) => void): () => void {
  return session.onEvent(call.guarded(on));
}

/**
 * Writes what the far side's session tells into the record of its call, from the opening to the close and whatever runs on the call: its
 * first packet, and from the answer on its keys, holds, turns and quality samples. `counts`: whether the call still depends on this session.
 */
export function recordParty(session: MediaSession, call: Call, role: PartyRole, counts: () => boolean): void {
  observe(session, call, (event) => {
    if (!counts()) return;
    if (event.type === 'started') call.event('media.started');
    else if (call.answered) record(event, call, role);
  });
}

function record(event: MediaEvent, call: Call, by: PartyRole): void {
  if (event.type === 'dtmf')
    heardKey(call, event.digit, event.form === 'event' ? 'rfc4733' : 'inband', event.durationMs);
  else if (event.type === 'held') call.event('call.held', { by });
  else if (event.type === 'resumed') call.event('call.resumed', { by });
  else if (event.type === 'agentAudio') call.heardAgent();
  else if (event.type === 'oneWay') call.event('media.one_way', { direction: event.direction });
  else if (event.type === 'quality') call.heardQuality(event.sample);
  else if (event.type === 'turn') call.turn(event);
  else if (event.type === 'bargeIn')
    call.event('barge_in.detected', { at_ms: event.atMs, silence_ms: event.silenceMs });
  else if (event.type === 'mark') call.event('mark.reached', { name: event.name, cleared: event.cleared });
  else if (event.type === 'cleared') call.event('audio.cleared', clearedFacts(event));
}

function clearedFacts({ heardMs, droppedMs, items }: Extract<MediaEvent, { type: 'cleared' }>) {
  return {
    heard_ms: heardMs,
    dropped_ms: droppedMs,
    items: items.map((item) => ({ item_id: item.itemId, heard_ms: item.heardMs, dropped_ms: item.droppedMs })),
  };
}

/** A key of the far side. Its session tells of those in RTP; those in SIP INFO are known to whoever has the leg. */
export function heardKey(call: Call, digit: string, method: 'rfc4733' | 'inband' | 'info', durationMs?: number): void {
  call.event('dtmf.received', { digit, method, ...(durationMs === undefined ? {} : { duration_ms: durationMs }) });
}
