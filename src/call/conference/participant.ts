/** A call in a conference: its rights, and whether it is in the room. */
import type { RoomSeat } from '../../../media/engine.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction, WaitMusic } from '../../webhook/actions.js';
import { callSid } from '../../webhook/twilio-parameters.js';
import type { ConferenceHost } from './conference-host.js';
import type { ResumedStay } from './place.js';

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
  readonly call: ConferenceHost['call'];
  readonly label: string | null;
  readonly startsRoom: boolean;
  readonly joinedAt = new Date();
  endsRoom: boolean;
  muted: boolean;
  held = false;
  speaks = false;
  /** Resolves when the participant has to leave. `moved`: this node gives the conference away, and the participant finds it again. */
  readonly removed: Promise<'left' | 'kicked' | 'moved'>;
  remove!: (reason: 'left' | 'kicked' | 'moved') => void;
  /** Called when it may have to enter or leave the room, or when its rights have changed. */
  onChange: () => void = () => {};
  private holdMusic: WaitMusic;
  private seat: RoomSeat | null = null;

  constructor(
    readonly conference: JoinedConference,
    readonly host: ConferenceHost,
    readonly action: ConferenceAction,
    /** It was in the conference before. */
    resumed: ResumedStay | null = null,
  ) {
    this.call = host.call;
    this.label = action.label;
    this.startsRoom = action.startOnEnter;
    this.endsRoom = resumed?.endsRoom ?? action.endOnExit;
    this.muted = resumed?.muted ?? action.muted;
    this.held = resumed?.held ?? false;
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
    }
    this.onChange();
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
