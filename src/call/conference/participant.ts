/** A call in a conference: its rights, and whether it is in the room. */
import type { RoomSeat } from '../../../media/engine.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction, WaitMusic } from '../../webhook/actions.js';
import { callSid } from '../../webhook/twilio-parameters.js';
import type { Call } from '../core/call.js';
import type { ConferenceHost } from './conference-host.js';

/** Changes that can be requested during the conference. */
export interface ParticipantChange {
  muted?: boolean;
  held?: boolean;
  /** What the participant hears while held. */
  holdMusic?: WaitMusic;
  endsRoom?: boolean;
}

/** The conference as a participant sees it. */
export interface JoinedConference {
  readonly id: string;
  readonly name: string;
  readonly scope: Scope;
  readonly status: 'init' | 'in-progress' | 'completed';
  /** Sends a status callback about the participant to the application that asked for it. */
  tell(event: 'modify' | 'mute' | 'unmute' | 'hold' | 'unhold', about: Participant): void;
}

export class Participant {
  readonly call: Call;
  readonly label: string | null;
  readonly startsRoom: boolean;
  readonly joinedAt = new Date();
  endsRoom: boolean;
  muted: boolean;
  held = false;
  speaks = false;
  /** Resolves when the participant has to leave. */
  readonly removed: Promise<'left' | 'kicked'>;
  remove!: (reason: 'left' | 'kicked') => void;
  private holdMusic: WaitMusic;
  private seat: RoomSeat | null = null;
  private tellChange: () => void = () => {};

  constructor(
    readonly conference: JoinedConference,
    readonly host: ConferenceHost,
    readonly action: ConferenceAction,
  ) {
    this.call = host.party.call;
    this.label = action.label;
    this.startsRoom = action.startOnEnter;
    this.endsRoom = action.endOnExit;
    this.muted = action.muted;
    this.holdMusic = action.wait;
    this.removed = new Promise((resolve) => {
      this.remove = resolve;
    });
  }

  /** What the participant hears instead of the others; null: it hears them. */
  get music(): WaitMusic | null {
    if (this.held) return this.holdMusic;
    return this.conference.status === 'in-progress' ? null : this.action.wait;
  }

  /** Resolves when it may have to enter or leave the room. */
  nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.tellChange = resolve;
    });
  }

  changed(): void {
    this.tellChange();
  }

  /** Its seat in the room; null when it left. */
  sitsOn(seat: RoomSeat | null): void {
    this.seat = seat;
    seat?.mute(this.muted);
  }

  update({ muted, held, holdMusic, endsRoom }: ParticipantChange): void {
    const { conference } = this;
    if (endsRoom !== undefined && endsRoom !== this.endsRoom) {
      this.endsRoom = endsRoom;
      conference.tell('modify', this);
    }
    if (muted !== undefined && muted !== this.muted) {
      this.muted = muted;
      this.seat?.mute(muted);
      this.event('conference.updated', { muted });
      conference.tell(muted ? 'mute' : 'unmute', this);
    }
    if (holdMusic !== undefined) this.holdMusic = holdMusic;
    if (held !== undefined && held !== this.held) {
      this.held = held;
      this.event('conference.updated', { held });
      conference.tell(held ? 'hold' : 'unhold', this);
      this.changed();
    }
  }

  /** Whether it began or ceased to speak since the last call. */
  lookIfSpeaks(): boolean {
    const before = this.speaks;
    this.speaks = this.seat !== null && !this.muted && this.seat.speaks;
    return before !== this.speaks;
  }

  event(type: EventType, more: Record<string, unknown>): void {
    const { id, name } = this.conference;
    this.call.event(type, { conference_id: id, name, ...more });
  }

  fields(): { [name: string]: string } {
    return {
      CallSid: callSid(this.call.id),
      Muted: String(this.muted),
      Hold: String(this.held),
      Coaching: 'false',
      EndConferenceOnExit: String(this.endsRoom),
      StartConferenceOnEnter: String(this.startsRoom),
      ...(this.label === null ? {} : { ParticipantLabel: this.label }),
    };
  }
}
