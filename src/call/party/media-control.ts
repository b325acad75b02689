/** Which application has the media of a party. The only place that calls `attach`, `bridge` and `join` of the media engine. */
import type { AgentLink, Bridge, BridgeOptions, MediaRoom, MediaSession, RoomSeat } from '../../../media/engine.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import type { Application, DetachReason, Hold, Key } from './application.js';

type Kind = Application['kind'];
/** What runs on a party. The three kinds of bridge differ in how they came: by `lend`, by `connect`, by `replaceAll`. */
type State = Exclude<Kind, 'bridge'> | 'none' | 'dial bridge' | 'SIP agent' | 'transfer bridge';
type Operation = 'connect' | 'lend' | 'replaceAll';

/** Applications that may follow each state, by operation. Every other transition throws. */
const transitions: Record<Operation, { [from in State]?: readonly Kind[] }> = {
  connect: {
    none: ['agent', 'script', 'bridge', 'conference'],
    agent: ['announcement'],
    script: ['announcement'],
    'SIP agent': ['announcement'],
  },
  lend: { script: ['agent', 'bridge', 'conference'] },
  replaceAll: {
    agent: ['bridge'],
    script: ['bridge'],
    'dial bridge': ['bridge'],
    'SIP agent': ['bridge'],
    conference: ['bridge'],
  },
};

export class TransitionRefused extends Error {
  constructor(operation: Operation, from: State, to: Kind) {
    super(`${operation}: a ${to} cannot follow "${from}" on a call.`);
    this.name = 'TransitionRefused';
  }
}

/**
 * A stack of applications; the top one has the party. A script lends the party to an agent, a bridge or a conference, and gets it back; a
 * bridged transfer replaces all. Sounds that are played over an application (prompts, tones, music) are not applications.
 */
export class MediaControl {
  #stack: Application[] = [];
  #isOpen = false;
  #isOver = false;
  #isTransferred = false;
  /** Applications that are leaving; `release` waits for them. */
  readonly #leaving = new Set<Promise<unknown>>();

  /** `session`: the party's media session at the moment. */
  constructor(private readonly session: () => MediaSession) {}

  get current(): Application | null {
    return this.#stack.at(-1) ?? null;
  }

  /** The party is answered, and its call has not ended. */
  get isOpen(): boolean {
    return this.#isOpen && !this.#isOver;
  }

  /** The party was transferred by a bridge: nothing else follows on this call. */
  get isTransferred(): boolean {
    return this.#isTransferred;
  }

  get state(): State {
    const top = this.current;
    if (top === null) return 'none';
    if (top.kind !== 'bridge') return top.kind;
    if (this.#isTransferred) return 'transfer bridge';
    return this.#stack.length > 1 ? 'dial bridge' : 'SIP agent';
  }

  /** The party is answered and its media path is open: the application that is connected, or will be, takes the media. */
  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.current?.attach();
  }

  /**
   * The first application of a party, which takes the media as soon as the party is answered; or an announcement before the end, in place
   * of everything else. Resolves when what was there before is detached.
   */
  async connect(application: Application): Promise<void> {
    this.#check('connect', application);
    const before = this.#stack;
    this.#stack = [application];
    const left = this.#detach(before, 'replaced');
    if (this.#isOpen) application.attach();
    await left;
  }

  /** The script lends the party until the signal aborts, and then gets it back. Resolves when the borrower is detached. */
  async lend(application: Application, until: AbortSignal): Promise<void> {
    this.#check('lend', application);
    this.#stack.push(application);
    if (this.#isOpen && !until.aborted) application.attach();
    await aborted(until);
    await this.#detach([application], this.#isTransferred ? 'transferred' : this.#isOver ? 'call_ended' : 'finished');
    if (this.current !== application) return; // all were replaced, or released
    this.#stack.pop();
    if (this.isOpen) this.current?.attach();
  }

  /**
   * A bridged transfer: detaches everything, the top first, and connects `application`. Its keys and holds count at once, its media after
   * the others have left. Rejects when the call ended meanwhile.
   */
  async replaceAll(application: Application): Promise<void> {
    this.#check('replaceAll', application);
    const before = this.#stack;
    this.#stack = [application];
    this.#isTransferred = true;
    await this.#detach(before, 'transferred');
    if (this.#isOver) throw new Error('The call ended during the transfer.');
    this.session().attach(null);
    application.attach();
  }

  /** Takes everything off: at the end of the call, or before the answer, when the endpoint failed and another one follows. */
  async release(why: DetachReason): Promise<void> {
    const before = this.#stack;
    this.#stack = [];
    if (why === 'call_ended') this.#isOver = true;
    void this.#detach(before, why);
    await Promise.allSettled(this.#leaving);
  }

  /** Sets the owner of playout, for the application that has the party; ignored for another one. */
  attach(application: Application, owner: AgentLink | null): void {
    if (application === this.current) this.session().attach(owner);
  }

  /** null when the application does not have the party. */
  bridge(application: Application, other: MediaSession, options: BridgeOptions): Bridge | null {
    return application === this.current ? this.session().bridge(other, options) : null;
  }

  /** null when the application does not have the party, or the room is full. */
  join(application: Application, room: MediaRoom, options: { muted: boolean }): RoomSeat | null {
    return application === this.current ? room.join(this.session(), options) : null;
  }

  key(key: Key): void {
    if (this.isOpen) this.current?.onKey(key);
  }

  hold(hold: Hold | null): void {
    if (this.isOpen) this.current?.onHold(hold);
  }

  /** Asks the applications, the top first; null: none of them has an answer of its own. */
  command(command: CallCommand): Promise<CommandResult> | null {
    for (const application of [...this.#stack].reverse()) {
      const result = application.onCommand?.(command) ?? null;
      if (result !== null) return result;
    }
    return null;
  }

  #check(operation: Operation, { kind }: Application): void {
    if (this.#isOver || !transitions[operation][this.state]?.includes(kind))
      throw new TransitionRefused(operation, this.state, kind);
  }

  /** All at once, the top first: a script must know that it is interrupted before its borrower has left. */
  async #detach(stack: readonly Application[], why: DetachReason): Promise<void> {
    const left = Promise.allSettled([...stack].reverse().map((application) => application.detach(why)));
    this.#leaving.add(left);
    await left;
    this.#leaving.delete(left);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
