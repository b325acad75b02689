/** Lists and steers conferences, whichever node has them. */
import type { Scope } from '../../store/tenants/scope.js';
import type { Conference } from './conference.js';
import type { Conferences } from './conferences.js';
import type { Participant, ParticipantChange } from './participant.js';

/** A participant as the API shows it. */
export interface ShownParticipant {
  callId: string;
  label: string | null;
  muted: boolean;
  held: boolean;
  startsRoom: boolean;
  endsRoom: boolean;
  joinedAt: Date;
}

/** A conference as the API shows it. */
export interface ShownConference {
  id: string;
  name: string;
  scope: Scope;
  status: 'init' | 'in-progress' | 'completed';
  createdAt: Date;
  participants: ShownParticipant[];
}

/** `conference`: id or name; `callId`: of a participant. Sent as JSON. */
type Command = { scope: Scope } & (
  | { kind: 'list' }
  | { kind: 'find'; conference: string }
  | { kind: 'end'; conference: string }
  | { kind: 'update'; conference: string; callId: string; change: ParticipantChange }
  | { kind: 'kick'; conference: string; callId: string }
);

/** The way to the other nodes. */
export interface NodesWithConferences {
  /** The leases of the other nodes that have conferences of this organization, or this conference. */
  owners(scope: Scope, idOrName: string | null): Promise<string[]>;
  send(
    instanceId: string,
    command: string,
  ): Promise<{ kind: 'answered'; answer: string } | { kind: 'not_running' } | { kind: 'unreachable'; message: string }>;
  serve(handle: (command: string) => Promise<string>): void;
}

/** The node that has the conference is dead or does not answer; `message` names it. */
export class ConferenceUnreachable extends Error {}

export class ConferencesOfAllNodes {
  /** `others` null: there is one node. */
  constructor(
    private readonly local: Conferences,
    private readonly others: NodesWithConferences | null,
  ) {
    others?.serve(async (command) => JSON.stringify(this.here(JSON.parse(command) as Command)));
  }

  /** A conference of a node that is dead or does not answer is left out. */
  async list(scope: Scope): Promise<ShownConference[]> {
    const here = this.here({ kind: 'list', scope });
    const there = ((await this.others?.owners(scope, null)) ?? []).map((id) =>
      this.at(id, { kind: 'list', scope }).catch((error) => {
        if (error instanceof ConferenceUnreachable) return [];
        throw error;
      }),
    );
    return [...here, ...(await Promise.all(there)).flat()];
  }

  /** By id or name. Rejects with `ConferenceUnreachable`, as the others do. */
  find(scope: Scope, conference: string): Promise<ShownConference | undefined> {
    return this.command({ kind: 'find', scope, conference });
  }

  /** The conference as it was before; undefined: there is none. */
  end(scope: Scope, conference: string): Promise<ShownConference | undefined> {
    return this.command({ kind: 'end', scope, conference });
  }

  /** The conference after the change; undefined: there is none, or no such participant. */
  update(
    scope: Scope,
    conference: string,
    callId: string,
    change: ParticipantChange,
  ): Promise<ShownConference | undefined> {
    return this.command({ kind: 'update', scope, conference, callId, change });
  }

  /** undefined: there is no such participant. */
  kick(scope: Scope, conference: string, callId: string): Promise<ShownConference | undefined> {
    return this.command({ kind: 'kick', scope, conference, callId });
  }

  private async command(command: Exclude<Command, { kind: 'list' }>): Promise<ShownConference | undefined> {
    const [here] = this.here(command);
    if (here !== undefined || this.others === null) return here;
    for (const id of await this.others.owners(command.scope, command.conference)) {
      const [there] = await this.at(id, command);
      if (there !== undefined) return there;
    }
    return undefined;
  }

  private async at(instanceId: string, command: Command): Promise<ShownConference[]> {
    const sent = await this.others?.send(instanceId, JSON.stringify(command));
    if (sent?.kind === 'unreachable') throw new ConferenceUnreachable(sent.message);
    return sent?.kind === 'answered' ? (JSON.parse(sent.answer) as Written[]).map(read) : [];
  }

  private here(command: Command): ShownConference[] {
    const { local } = this;
    if (command.kind === 'list') return local.list(command.scope).map(show);
    const conference = local.find(command.scope, command.conference);
    if (conference === undefined) return [];
    if (command.kind === 'find') return [show(conference)];
    if (command.kind === 'end') {
      conference.end('conference-ended-via-api');
      return [show(conference)];
    }
    const participant = conference.participants.find(({ call }) => call.id === command.callId);
    if (participant === undefined) return [];
    if (command.kind === 'kick') participant.remove('kicked');
    else participant.update(command.change);
    return [show(conference)];
  }
}

function show({ id, name, scope, status, createdAt, participants }: Conference): ShownConference {
  return { ...{ id, name, scope, status, createdAt }, participants: participants.map(showParticipant) };
}

function showParticipant({ call, ...participant }: Participant): ShownParticipant {
  const { label, muted, held, startsRoom, endsRoom, joinedAt } = participant;
  return { callId: call.id, label, muted, held, startsRoom, endsRoom, joinedAt };
}

/** What JSON makes of it. */
type Written = Omit<ShownConference, 'createdAt' | 'participants'> & {
  createdAt: string;
  participants: (Omit<ShownParticipant, 'joinedAt'> & { joinedAt: string })[];
};

function read({ createdAt, participants, ...rest }: Written): ShownConference {
  return {
    ...rest,
    createdAt: new Date(createdAt),
    participants: participants.map((each) => ({ ...each, joinedAt: new Date(each.joinedAt) })),
  };
}
