/** A place in a conference of another node: the party is bridged with a SIP leg to it. */
import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession } from '../../../media/engine.js';
import { withDeadline } from '../../../net/deadline.js';
import type { SipGateway } from '../../../sip/leg.js';
import type { WaitMusic } from '../../webhook/actions.js';
import { codecsLike } from '../dial/leg-media.js';
import type { Application } from '../party/application.js';
import type { MediaControl } from '../party/media-control.js';
import { FarRedaction } from '../redaction/far-redaction.js';
import type { ConferenceEntry, Full } from './conferences.js';
import { type GuestState, linkPurpose, NodeLink, type ToGuest, type ToOwner } from './node-link.js';
import type { ConferencePlace, PlaceAudio, ResumedStay } from './place.js';

/** What a link to another node needs of this process. */
export interface GuestDeps {
  media: Pick<MediaEngine, 'open'>;
  policy: MediaPolicy;
  sip: Pick<SipGateway, 'dial' | 'nodePass' | 'nodeAddress'>;
}

type Link = NodeLink<ToOwner, ToGuest>;
type Reply = Extract<ToGuest, { kind: 'joined' | 'refused' }>;

/** For the INVITE, and again for the answer of the conference. */
const enterLimitMs = 3_000;
/** How often the owner is asked whether it lives. */
const askEveryMs = 1_000;
/** How long the owner may take to say goodbye. */
const leaveLimitMs = 2_000;

export class GuestPlace implements ConferencePlace {
  readonly conference: { id: string; name: string };
  readonly removed: Promise<'left' | 'kicked' | 'moved' | 'lost'>;
  onChange: () => void = () => {};
  readonly #recordings = new Set<string>();
  #resolveRemoved!: (reason: 'left' | 'kicked' | 'moved' | 'lost') => void;
  readonly #asking: NodeJS.Timeout;

  private constructor(
    readonly owner: string,
    private readonly entry: ConferenceEntry,
    private readonly link: Link,
    conferenceId: string,
    private state: GuestState,
  ) {
    this.conference = { id: conferenceId, name: entry.action.name };
    this.removed = new Promise((resolve) => {
      this.#resolveRemoved = resolve;
    });
    this.#asking = setInterval(() => link.send({ kind: 'alive' }), askEveryMs);
    void link.over.then(() => {
      clearInterval(this.#asking);
      this.#resolveRemoved('lost');
    });
  }

  /** Enters the conference at its owner. Rejects when that node cannot be reached, or does not have it. */
  static async enter(
    owner: { id: string; address: string },
    entry: ConferenceEntry,
    deps: GuestDeps,
    signal: AbortSignal,
  ): Promise<GuestPlace | Full> {
    let place: GuestPlace | null = null;
    const early: ToGuest[] = [];
    let replied!: (reply: Reply | null) => void;
    const reply = new Promise<Reply | null>((resolve) => {
      replied = resolve;
    });
    const far = new FarRedaction((redaction) => link.send({ kind: 'redaction', redaction }));
    const link: Link = await linkTo(owner, entry, deps, signal, (message) => {
      if (message.kind === 'joined' || message.kind === 'refused') replied(message);
      else if (message.kind === 'redaction') far.heard(message.redaction);
      else if (place === null) early.push(message);
      else place.#heard(message);
    });
    const { host, action, resumed } = entry;
    const unlink = host.call.redaction.link(far.redaction);
    void link.over.then(() => {
      unlink();
      far.close();
    });
    link.send({ kind: 'join', scope: host.scope, callId: host.call.id, action, resumed });
    void link.over.then(() => replied(null));
    const answer = await withDeadline(enterLimitMs, 'the conference', signal, () => reply).catch(() => null);
    if (answer?.kind !== 'joined') {
      void link.close();
      if (answer?.why === 'full') return { fullId: answer.conferenceId };
      throw new Error('The node that has the conference does not answer.');
    }
    place = new GuestPlace(owner.address, entry, link, answer.conferenceId, answer.state);
    for (const message of early) place.#heard(message);
    return place;
  }

  get music(): WaitMusic | null {
    return this.state.music;
  }

  get openRecordings(): readonly string[] {
    return [...this.#recordings];
  }

  get resumable(): ResumedStay {
    return this.state.resumable;
  }

  join(control: MediaControl, application: Application): PlaceAudio | null {
    const { link } = this;
    if (link.isOver) return { ended: new Promise(() => {}), leave: async () => {} }; // `removed` says so
    const bridge = control.bridge(application, link.session, { relay: 'packets', dtmf: 'block' });
    if (bridge === null) return null;
    // the end of the link is no end of the stay
    const ended = bridge.ended.then(({ by }) => (by === 'closed' || link.isOver ? new Promise(() => {}) : by));
    return { ended, leave: () => bridge.stop() };
  }

  async leave(reason: 'left' | 'kicked'): Promise<void> {
    const { link, entry } = this;
    if (!link.isOver) {
      link.send({ kind: 'leave', reason, hasCallEnded: entry.host.call.ending !== null });
      await withDeadline(leaveLimitMs, 'the conference', null, () => link.over).catch(() => {});
    }
    await link.close();
  }

  #heard(message: ToGuest): void {
    const { host } = this.entry;
    if (message.kind === 'state') {
      this.state = message.state;
      this.onChange();
    } else if (message.kind === 'event') this.#record(message);
    else if (message.kind === 'callback') host.send(message.conferenceId, message.to, message.fields);
    else if (message.kind === 'removed') this.#resolveRemoved(message.reason);
  }

  #record({ type, data }: ToGuest & { kind: 'event' }): void {
    if (type === 'recording.started') this.#recordings.add(String(data.recording_id));
    else if (type.startsWith('recording.')) this.#recordings.delete(String(data.recording_id));
    this.entry.host.call.event(type, data);
  }
}

async function linkTo(
  { id, address }: { id: string; address: string },
  { party }: ConferenceEntry,
  { media, policy, sip }: GuestDeps,
  signal: AbortSignal,
  onMessage: (message: ToGuest) => void,
): Promise<Link> {
  const sipCallId = randomUUID();
  const uri = `sip:conference@${address}`;
  let session: MediaSession | null = null;
  try {
    const codecs = await codecsLike(party.session, policy.codecs);
    const leg = await sip.dial(
      {
        ...{ sipCallId, to: uri, from: 'conference', gateways: [{ uri }] },
        headers: sip.nodePass(linkPurpose, id, sipCallId),
        ringTimeoutMs: enterLimitMs,
        offerFor: async (_gateway, localAddress) => {
          const wanted = { ...policy, codecs, ...linkPolicy };
          session = await media.open({
            group: party.call.id,
            offer: null,
            policy: wanted,
            localAddress,
            role: 'callee',
          });
          return session.offer();
        },
      },
      signal,
    );
    const opened = session as MediaSession | null;
    if (opened === null) throw new Error('The link has no media.');
    const link: Link = new NodeLink(leg, opened, onMessage);
    try {
      await opened.accept(leg.remoteSdp, { provisional: false });
    } catch (error) {
      await link.close();
      throw error;
    }
    return link;
  } catch (error) {
    await (session as MediaSession | null)?.close();
    throw error;
  }
}

/** Between nodes audio may pause as long as a phone pauses: messages tell whether the link lives. */
export const linkPolicy = { firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 } as const;
