/** The conferences of this process, by organization and name. */
import { randomUUID } from 'node:crypto';
import type { MediaRoom } from '../../../media/engine.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction } from '../../webhook/actions.js';
import type { CallParty } from '../party/party.js';
import { Conference } from './conference.js';
import type { ConferenceHost } from './conference-host.js';
import { OwnPlace } from './own-place.js';
import { Participant } from './participant.js';
import type { ConferencePlace, ResumedStay } from './place.js';

/** A call that wants to enter. */
export interface ConferenceEntry {
  host: ConferenceHost;
  party: CallParty;
  action: ConferenceAction;
  /** It was in the conference before. */
  resumed: ResumedStay | null;
}

/** The conferences of the other nodes. */
export interface ConferencesElsewhere {
  /** The owner of the conference of this name; this node, if there is none. `id`: of the conference, if there is none. */
  claim(scope: Scope, name: string, id: string): Promise<{ id: string; isThisNode: boolean; address: string }>;
  release(id: string): Promise<void>;
  /** Enters at the owner. Rejects when it cannot be reached. */
  enter(
    owner: { id: string; address: string },
    entry: ConferenceEntry,
    signal: AbortSignal,
  ): Promise<ConferencePlace | Full>;
}

/** All places are taken. */
export interface Full {
  fullId: string;
}

export class Conferences {
  /** Conferences that can still be entered. */
  private readonly open = new Map<string, Conference>();
  /** Names that are claimed or released at the moment. */
  private readonly asked = new Map<string, Promise<unknown>>();
  private isClosed = false;

  /** `others` null: there is one node. */
  constructor(
    private readonly room: (seats: number) => MediaRoom,
    private readonly others: ConferencesElsewhere | null = null,
  ) {}

  /** Enters the conference of this name, at the node that has it, or creates it at this one. Rejects when the owner is not known or cannot be reached. */
  async enter(entry: ConferenceEntry, signal: AbortSignal): Promise<ConferencePlace | Full> {
    const { host, action, resumed } = entry;
    const key = keyOf(host.scope, action.name);
    const id = resumed?.conferenceId ?? action.id ?? randomUUID();
    if (this.others !== null && !this.open.has(key)) {
      const { others } = this;
      const owner = await this.inTurn(key, async () =>
        this.open.has(key) ? null : others.claim(host.scope, action.name, id),
      );
      if (owner?.isThisNode === false) return others.enter(owner, entry, signal);
      if (owner !== null && (signal.aborted || this.isClosed)) {
        if (!this.open.has(key)) void this.release(key, owner.id);
        throw signal.aborted ? signal.reason : new Error('This node leaves.');
      }
      return this.enterHere(host, action, resumed, owner?.id ?? id);
    }
    return this.enterHere(host, action, resumed, id);
  }

  /** A call of another node enters a conference that this node has; null: it does not have it. */
  enterFromNode(
    host: ConferenceHost,
    action: ConferenceAction,
    resumed: ResumedStay | null,
  ): { conference: Conference; participant: Participant | null } | null {
    const key = keyOf(host.scope, action.name);
    const conference = this.open.get(key);
    if (conference === undefined) return null;
    return { conference, participant: this.admit(conference, host, action, resumed) };
  }

  /** Another node believes that this one has the conference of this name, and it does not: nobody shall believe it any longer. */
  async disown(scope: Scope, name: string, id: string): Promise<void> {
    const key = keyOf(scope, name);
    if (!this.open.has(key) && !this.asked.has(key)) await this.release(key, id);
  }

  list(scope: Scope): Conference[] {
    return [...this.open.values()].filter(({ scope: of }) => isSame(of, scope));
  }

  /** By id or name. */
  find(scope: Scope, idOrName: string): Conference | undefined {
    return this.list(scope).find(({ id, name }) => id === idOrName || name === idOrName);
  }

  /** Gives all conferences to the other nodes, where their participants find each other again. Resolves when this node has none. */
  async giveAway(): Promise<void> {
    for (const conference of [...this.open.values()]) conference.giveAway();
    await Promise.all(this.asked.values());
  }

  /** The process ends. */
  async close(): Promise<void> {
    this.isClosed = true;
    if (this.others !== null) await this.giveAway();
  }

  private enterHere(
    host: ConferenceHost,
    action: ConferenceAction,
    resumed: ResumedStay | null,
    id: string,
  ): ConferencePlace | Full {
    const key = keyOf(host.scope, action.name);
    const conference = this.open.get(key) ?? this.create(key, { host, action, resumed, id });
    const participant = this.admit(conference, host, action, resumed);
    return participant === null ? { fullId: conference.id } : new OwnPlace(conference, participant);
  }

  private create(
    key: string,
    {
      host,
      action,
      resumed,
      id,
    }: { host: ConferenceHost; action: ConferenceAction; resumed: ResumedStay | null; id: string },
  ): Conference {
    const founding = resumed?.founding ?? action;
    const made = new Conference(
      ...([id, founding, host.scope, host, this.room(founding.maxParticipants)] as const),
      () => {
        if (this.open.get(key) !== made) return;
        this.open.delete(key);
        void this.release(key, id);
      },
      resumed?.isRunning ?? false,
    );
    this.open.set(key, made);
    return made;
  }

  private admit(
    conference: Conference,
    host: ConferenceHost,
    action: ConferenceAction,
    resumed: ResumedStay | null,
  ): Participant | null {
    const before = conference.participants.find(({ call }) => call.id === host.call.id);
    if (before !== undefined) conference.forget(before);
    if (conference.participants.length >= Math.min(conference.seats, action.maxParticipants)) return null;
    const participant = new Participant(conference, host, action, resumed);
    conference.enter(participant, resumed);
    return participant;
  }

  private async release(key: string, id: string): Promise<void> {
    const { others } = this;
    // a row that stays behind goes when another node asks for the conference, or with this node's lease
    if (others !== null) await this.inTurn(key, () => others.release(id)).catch(() => {});
  }

  /** One question about a name after the other, so that the release of a conference does not take the next one of its name away. */
  private async inTurn<T>(key: string, ask: () => Promise<T>): Promise<T> {
    const before = this.asked.get(key);
    const turn = (before ?? Promise.resolve()).then(ask, ask);
    const settled = turn.then(
      () => {},
      () => {},
    );
    this.asked.set(key, settled);
    try {
      return await turn;
    } finally {
      if (this.asked.get(key) === settled) this.asked.delete(key);
    }
  }
}

function keyOf({ organizationId, mode }: Scope, name: string): string {
  return `${organizationId} ${mode} ${name}`;
}

function isSame(a: Scope, b: Scope): boolean {
  return a.organizationId === b.organizationId && a.mode === b.mode;
}
