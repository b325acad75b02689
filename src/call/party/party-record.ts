/** What the phone of a party does, as events and figures in the record of its call. */
import type { MediaEvent } from '../../../media/engine.js';
import type { Call } from '../core/call.js';
import type { PhoneRole } from '../core/outcome.js';
import type { Key } from './application.js';

export type PartyRole = PhoneRole | 'agent';

/** Events of the media session; keys and holds have functions of their own. */
export function recordMedia(event: MediaEvent, call: Call, role: PartyRole): void {
  if (role === 'agent') {
    if (event.type === 'started') call.heardAgent();
    return;
  }
  if (event.type === 'started') call.event('media.started');
  else if (!call.answered) return;
  else if (event.type === 'agentAudio') call.heardAgent();
  else if (event.type === 'oneWay') call.event('media.one_way', { direction: event.direction });
  else if (event.type === 'quality') call.heardQuality(event.sample);
  else if (event.type === 'turn') call.turn(event);
  else if (event.type === 'bargeIn')
    call.event('barge_in.detected', { at_ms: event.atMs, silence_ms: event.silenceMs });
  else if (event.type === 'mark') call.event('mark.reached', { name: event.name, cleared: event.cleared });
  else if (event.type === 'cleared') call.event('audio.cleared', clearedFacts(event));
}

/** In place of keys. */
const redacted = { redacted: true };

export function recordKey({ digit, method }: Key, durationMs: number | null, call: Call, role: PartyRole): void {
  const isHidden = call.redaction.hidesKey(durationMs);
  if (role === 'agent') call.event('dtmf.sent', { ...(isHidden ? redacted : { digits: digit }), source: 'agent' });
  else
    call.event('dtmf.received', {
      ...(isHidden ? redacted : { digit }),
      method,
      ...(durationMs === null ? {} : { duration_ms: durationMs }),
    });
}

export function recordHold(isHeld: boolean, call: Call, by: PartyRole): void {
  call.event(isHeld ? 'call.held' : 'call.resumed', { by });
}

function clearedFacts({ heardMs, droppedMs, items }: Extract<MediaEvent, { type: 'cleared' }>) {
  return {
    heard_ms: heardMs,
    dropped_ms: droppedMs,
    items: items.map((item) => ({ item_id: item.itemId, heard_ms: item.heardMs, dropped_ms: item.droppedMs })),
  };
}
