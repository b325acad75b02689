/** Calls of other nodes in conferences of this one. */
import type { MediaEngine, MediaPolicy, MediaSession, RoomSeat } from '../../../media/engine.js';
import type { CallLeg, IncomingCall } from '../../../sip/leg.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { FollowUp, WaitMusic } from '../../webhook/actions.js';
import type { Application } from '../party/application.js';
import { MediaControl } from '../party/media-control.js';
import type { PartialRecordings } from '../recording/recordings.js';
import { FarRedaction } from '../redaction/far-redaction.js';
import type { Conference } from './conference.js';
import type { ConferenceHost } from './conference-host.js';
import type { Conferences } from './conferences.js';
import { linkPolicy } from './guest-place.js';
import { NodeLink, type ToGuest, type ToOwner } from './node-link.js';
import { resumableOf } from './own-place.js';
import type { Participant } from './participant.js';

export interface GuestsDeps {
  media: Pick<MediaEngine, 'open'>;
  policy: MediaPolicy;
  takes: PartialRecordings;
  conferences: Conferences;
  /** An event about a call of another node, which does not listen any more. */
  lateEvent(callId: string, type: EventType, data: Record<string, unknown>): void;
}

/** A node that says nothing for so long is lost. It says something every second. */
const silenceLimitMs = 5_000;
const lookEveryMs = 1_000;

export class Guests {
  private readonly links = new Set<NodeLink<ToGuest, ToOwner>>();

  constructor(private readonly deps: GuestsDeps) {}

  /** Answers an INVITE of another node that shows its pass for the conference of this id. */
  async take(incoming: IncomingCall, conferenceId: string): Promise<void> {
    const { media, policy } = this.deps;
    const session = await media.open({
      ...{ group: incoming.sipCallId, offer: incoming.offer, policy: { ...policy, ...linkPolicy } },
      ...{ localAddress: incoming.localAddress, signalledFrom: incoming.peer.address, role: 'caller' },
    });
    let leg: CallLeg;
    try {
      leg = await incoming.answer(session.localSdp);
    } catch (error) {
      await session.close();
      throw error;
    }
    const guest = new Guest(leg, session, conferenceId, this.deps);
    this.links.add(guest.link);
    void guest.link.over.then(() => this.links.delete(guest.link));
  }

  /** Resolves when everything was said to all of them, and their links are over. */
  async close(): Promise<void> {
    await Promise.all([...this.links].map((link) => link.close()));
  }
}

/** One call of another node. It is the application of the link's media: in the room while the participant hears the others. */
class Guest implements Application {
  readonly kind = 'conference';
  readonly link: NodeLink<ToGuest, ToOwner>;
  private readonly control: MediaControl;
  private readonly far = new FarRedaction((redaction) => this.link.send({ kind: 'redaction', redaction }));
  private readonly watching: NodeJS.Timeout;
  private conference: Conference | null = null;
  private participant: Participant | null = null;
  private seat: RoomSeat | null = null;
  private host: (ConferenceHost & { call: { hasEnded: boolean } }) | null = null;

  constructor(
    leg: CallLeg,
    session: MediaSession,
    private readonly conferenceId: string,
    private readonly deps: GuestsDeps,
  ) {
    this.control = new MediaControl(() => session);
    this.link = new NodeLink(leg, session, (message) => this.heard(message));
    this.watching = setInterval(() => {
      if (performance.now() - this.link.heardAtMs > silenceLimitMs) void this.link.close();
    }, lookEveryMs);
    void this.link.over.then(() => this.left('lost'));
    void this.control.connect(this);
    this.control.open();
  }

  attach(): void {
    this.control.attach(this, null);
  }

  async detach(): Promise<void> {}
  onKey(): void {}
  onHold(): void {}

  private heard(message: ToOwner): void {
    if (message.kind === 'join') this.join(message);
    else if (message.kind === 'redaction') this.far.heard(message.redaction);
    else if (message.kind === 'leave') {
      if (this.host !== null) this.host.call.hasEnded = message.hasCallEnded;
      this.left(message.reason);
      void this.link.close();
    }
  }

  private join({ scope, callId, action, resumed }: ToOwner & { kind: 'join' }): void {
    const { conferences, takes } = this.deps;
    if (this.participant !== null) return;
    this.host = { call: this.callOf(callId), scope, takes, send: (...callback) => this.sendBack(...callback) };
    const entered = conferences.enterFromNode(this.host, action, resumed);
    if (entered?.participant == null) {
      const why = entered === null ? 'absent' : 'full';
      this.link.send({ kind: 'refused', why, conferenceId: entered?.conference.id ?? this.conferenceId });
      void this.link.close();
      if (entered === null) void conferences.disown(scope, action.name, this.conferenceId);
      return;
    }
    const { conference, participant } = entered;
    this.conference = conference;
    this.participant = participant;
    participant.onChange = () => this.changed();
    void participant.removed.then((reason) => {
      this.link.send({ kind: 'removed', reason });
      if (reason === 'moved') void this.link.close(); // the others say goodbye first
    });
    this.link.send({ kind: 'joined', conferenceId: conference.id, state: this.stateOf(conference, participant) });
    this.sit(participant.music);
  }

  /** The call, for the conference: what is to be in its record goes to its node. */
  private callOf(id: string): ConferenceHost['call'] & { hasEnded: boolean } {
    const { link, deps, far } = this;
    return {
      id,
      redaction: far.redaction,
      hasEnded: false,
      get ending() {
        return this.hasEnded ? ({ cause: 'normal_clearing', source: 'caller' } as const) : null;
      },
      event(type: EventType, data: Record<string, unknown> = {}) {
        if (!link.isOver) link.send({ kind: 'event', type, data });
        else if (type.startsWith('recording.')) deps.lateEvent(id, type, data); // what became of the participant its node has written itself
      },
    };
  }

  private sendBack(conferenceId: string, to: FollowUp, fields: { [name: string]: string }): void {
    this.link.send({ kind: 'callback', conferenceId, to, fields });
  }

  private changed(): void {
    const { conference, participant } = this;
    if (conference === null || participant === null) return;
    this.link.send({ kind: 'state', state: this.stateOf(conference, participant) });
    this.sit(participant.music);
  }

  private stateOf(conference: Conference, participant: Participant) {
    return { music: participant.music, resumable: resumableOf(conference, participant) };
  }

  /** In the room, unless there is music: that is played by the call's own node. */
  private sit(music: WaitMusic | null): void {
    const { conference, participant } = this;
    if (conference === null || participant === null) return;
    if ((music === null) === (this.seat !== null)) return;
    if (music === null) {
      this.seat = this.control.join(this, conference.room, { muted: participant.muted });
      participant.sitsOn(this.seat);
    } else this.rise();
  }

  private rise(): void {
    this.participant?.sitsOn(null);
    void this.seat?.leave();
    this.seat = null;
  }

  private left(reason: 'left' | 'kicked' | 'lost'): void {
    clearInterval(this.watching);
    const { conference, participant } = this;
    this.rise();
    this.participant = null;
    if (conference !== null && participant !== null) conference.leave(participant, reason);
    this.far.close();
  }
}
