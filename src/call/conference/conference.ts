/** One conference, from the first participant to the last one. */
import type { MediaRoom } from '../../../media/engine.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction, StatusCallback } from '../../webhook/actions.js';
import { recordingStatusFields } from '../../webhook/request-bodies.js';
import { accountSid, callSid, conferenceSid } from '../../webhook/twilio-parameters.js';
import type { PartialRecording } from '../recording/recordings.js';
import { Redaction, withoutRecord } from '../redaction/redaction.js';
import type { ConferenceHost } from './conference-host.js';
import type { Participant } from './participant.js';
import type { ResumedStay } from './place.js';

/** Twilio's `ReasonConferenceEnded`. */
export type ConferenceEndReason =
  | 'last-participant-left'
  | 'last-participant-kicked'
  | 'participant-with-end-conference-on-exit-left'
  | 'participant-with-end-conference-on-exit-kicked'
  | 'conference-ended-via-api';

/** How often speakers are determined, when a callback asked for them. */
const lookEveryMs = 100;
/** Twilio's names of the events. */
const eventNames = {
  start: 'conference-start',
  end: 'conference-end',
  join: 'participant-join',
  leave: 'participant-leave',
  mute: 'participant-mute',
  unmute: 'participant-unmute',
  hold: 'participant-hold',
  unhold: 'participant-unhold',
  'speech-start': 'participant-speech-start',
  'speech-stop': 'participant-speech-stop',
  modify: 'participant-modify',
} as const;
/** The value of `statusCallbackEvent` that asks for each event. */
const askedAs: { [event in keyof typeof eventNames]: string } = {
  ...{ start: 'start', end: 'end', join: 'join', leave: 'leave', mute: 'mute', unmute: 'mute', hold: 'hold' },
  ...{ unhold: 'hold', 'speech-start': 'speaker', 'speech-stop': 'speaker', modify: 'modify' },
};

export class Conference {
  readonly name: string;
  /** The action of its first participant, perhaps at another node. */
  readonly founding: ConferenceAction;
  readonly seats: number;
  readonly createdAt = new Date();
  participants: Participant[] = [];
  status: 'init' | 'in-progress' | 'completed' = 'init';
  /** Also when it has ended since. */
  hasStarted = false;
  private readonly callback: StatusCallback | null;
  private endedBy: { reason: ConferenceEndReason; callId: string | null } | null = null;
  private take: PartialRecording | null = null;
  private sequence = 1;
  private looking: NodeJS.Timeout | null = null;
  /** Passages of one participant count for all of them, and for the recording of the conference. */
  private readonly redaction = new Redaction(withoutRecord);
  private readonly unlink = new Map<Participant, () => void>();

  constructor(
    readonly id: string,
    action: ConferenceAction,
    readonly scope: Scope,
    /** The first participant at this node: status callbacks are signed as its webhook signs. */
    private readonly first: ConferenceHost,
    readonly room: MediaRoom,
    /** No participant can enter any more. */
    private readonly onEnd: () => void,
    /** It was at another node before, and had started there. */
    isRunning = false,
  ) {
    this.founding = action;
    this.name = action.name;
    this.seats = action.maxParticipants;
    this.callback = action.status;
    this.redaction.cover(room);
    if (isRunning) this.begin();
  }

  /** The participant hears the others, or music until a second one enters. `resumed`: it was in the conference before, at this or another node. */
  enter(participant: Participant, resumed: ResumedStay | null = null): void {
    this.participants.push(participant);
    this.unlink.set(participant, this.redaction.link(participant.call.redaction));
    const { muted, label, action } = participant;
    participant.event('conference.joined', {
      ...(label === null ? {} : { label }),
      ...{ muted, ...(resumed !== null && { rejoined: true }) },
    });
    if (resumed === null) this.tell('join', participant);
    if (resumed === null && this.status === 'in-progress' && action.beep.entered) this.room.beep('entered');
    const mayStart = this.participants.length > 1 && this.participants.some((each) => each.startsRoom);
    if (this.status === 'init' && (mayStart || resumed?.isRunning)) this.start(participant);
    if (this.status === 'in-progress') this.record(participant);
  }

  /** The same call enters again, because it lost its way here: what it had is taken away, and nobody hears of it. */
  forget(participant: Participant): void {
    this.participants = this.participants.filter((each) => each !== participant);
    this.part(participant);
    participant.remove('moved');
  }

  /** This node gives the conference away: its participants find it again at another one. Idempotent. */
  giveAway(): void {
    this.close();
    for (const participant of this.participants) {
      this.part(participant);
      participant.remove('moved');
    }
    this.participants = [];
  }

  /** The participant left. `lost`: its node cannot be reached; the conference goes on for the others, whatever its rights were. */
  leave(participant: Participant, reason: 'left' | 'kicked' | 'lost'): void {
    if (!this.participants.includes(participant)) return; // it moved
    this.participants = this.participants.filter((each) => each !== participant);
    this.part(participant);
    const how = reason === 'kicked' ? 'kicked' : 'left';
    if (reason !== 'lost')
      participant.event('conference.left', { reason: this.endedBy === null ? how : 'conference_ended' });
    this.tell('leave', participant, {
      ReasonParticipantLeft: reason === 'kicked' ? 'participant_updated_via_api' : 'participant_hung_up',
      ParticipantCallStatus: participant.call.ending === null ? 'in-progress' : 'completed',
    });
    if (participant.endsRoom && reason !== 'lost')
      this.end(`participant-with-end-conference-on-exit-${how}`, participant);
    else if (this.participants.length === 0) this.end(`last-participant-${how}`, participant);
    else if (this.status === 'in-progress' && participant.action.beep.left) this.room.beep('left');
    if (this.participants.length > 0 || this.endedBy === null) return;
    const { reason: why, callId } = this.endedBy;
    participant.event('conference.ended', { reason: why.replaceAll('-', '_') });
    this.tell('end', null, {
      ReasonConferenceEnded: why,
      ...(callId === null ? {} : { CallSidEndingConference: callSid(callId) }),
    });
  }

  /** All participants leave; the same name means a new conference from now on. Idempotent. */
  end(reason: ConferenceEndReason, by: Participant | null = null): void {
    if (this.endedBy !== null) return;
    this.endedBy = { reason, callId: by?.call.id ?? null };
    this.close();
    for (const participant of this.participants) participant.remove('left');
  }

  /** Sends a status callback in Twilio's form, if it was asked for. */
  tell(event: keyof typeof eventNames, about: Participant | null, more: { [name: string]: string } = {}): void {
    if (!this.callback?.events.includes(askedAs[event])) return;
    this.send(this.callback, {
      ...this.facts(),
      StatusCallbackEvent: eventNames[event],
      SequenceNumber: String(this.sequence++),
      Timestamp: new Date().toUTCString(),
      ...(about === null ? {} : about.fields()),
      ...more,
    });
  }

  private facts(): { [name: string]: string } {
    const { organizationId } = this.scope;
    return { AccountSid: accountSid(organizationId), ConferenceSid: conferenceSid(this.id), FriendlyName: this.name };
  }

  private send({ to }: StatusCallback, fields: { [name: string]: string }): void {
    this.first.send(this.id, to, fields);
  }

  private close(): void {
    if (this.status === 'completed') return;
    this.status = 'completed';
    this.onEnd();
    if (this.looking !== null) clearInterval(this.looking);
    this.take?.stop();
  }

  private begin(): void {
    this.status = 'in-progress';
    this.hasStarted = true;
    if (this.callback?.events.includes('speaker')) this.looking = setInterval(() => this.look(), lookEveryMs);
  }

  private start(by: Participant): void {
    this.begin();
    by.event('conference.started', { participants: this.participants.length });
    this.tell('start', null);
    for (const participant of this.participants) {
      participant.onChange();
      this.record(participant);
    }
  }

  /** The recording belongs to the first participant that requested it. */
  private record({ action, call, host }: Participant): void {
    if (!action.record || this.take !== null) return;
    const take = host.takes.begin(call, this.room, 'conference', { tracks: 'phone' });
    this.take = take;
    const tell = (status: 'in-progress' | 'completed' | 'absent', recording: PartialRecording['begun']) => {
      if (!action.recordingStatus?.events.includes(status)) return;
      const fields = recordingStatusFields(status, recording, 'Conference');
      this.send(action.recordingStatus, { ...this.facts(), ...fields });
    };
    tell('in-progress', take.begun);
    void take.made.then((made) => tell(made.error === null && made.durationMs > 0 ? 'completed' : 'absent', made));
  }

  private part(participant: Participant): void {
    this.unlink.get(participant)?.();
    this.unlink.delete(participant);
  }

  private look(): void {
    for (const participant of this.participants) {
      if (participant.lookIfSpeaks()) this.tell(participant.speaks ? 'speech-start' : 'speech-stop', participant);
    }
  }
}
