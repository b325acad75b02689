/** The conferences of this process, by organization and name. */
import { randomUUID } from 'node:crypto';
import type { MediaRoom } from '../../../media/engine.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction } from '../../webhook/actions.js';
import { Conference } from './conference.js';
import type { ConferenceHost } from './conference-host.js';
import { Participant } from './participant.js';

export class Conferences {
  /** Conferences that can still be entered. */
  private readonly open = new Map<string, Conference>();

  constructor(private readonly room: (seats: number) => MediaRoom) {}

  /** Enters the conference of this name, or creates it. `participant` is null when it is full. */
  enter(host: ConferenceHost, action: ConferenceAction): { conference: Conference; participant: Participant | null } {
    const { facts, mode } = host.party;
    const scope = { organizationId: facts.organizationId, mode };
    const key = keyOf(scope, action.name);
    let conference = this.open.get(key);
    if (conference === undefined) {
      const made = new Conference(
        action.id ?? randomUUID(),
        action,
        scope,
        host,
        this.room(action.maxParticipants),
        () => {
          if (this.open.get(key) === made) this.open.delete(key);
        },
      );
      this.open.set(key, made);
      conference = made;
    }
    if (conference.participants.length >= Math.min(conference.seats, action.maxParticipants))
      return { conference, participant: null };
    const participant = new Participant(conference, host, action);
    conference.enter(participant);
    return { conference, participant };
  }

  list(scope: Scope): Conference[] {
    return [...this.open.values()].filter(({ scope: of }) => isSame(of, scope));
  }

  /** By id or name. */
  find(scope: Scope, idOrName: string): Conference | undefined {
    return this.list(scope).find(({ id, name }) => id === idOrName || name === idOrName);
  }
}

function keyOf({ organizationId, mode }: Scope, name: string): string {
  return `${organizationId} ${mode} ${name}`;
}

function isSame(a: Scope, b: Scope): boolean {
  return a.organizationId === b.organizationId && a.mode === b.mode;
}
