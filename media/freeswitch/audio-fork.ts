/**
 * An agent whose audio FreeSWITCH carries itself, by its module mod_audio_fork: Trunkline starts and stops it, and passes keys on. No audio
 * crosses Trunkline, so there are no turns, transcripts or figures of the agent, and its clean close cannot be told from a broken one.
 */
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import { withDeadline } from '../../net/deadline.js';
import { type AgentCommand, type AgentEnd, type AgentEvent, AgentFailure, type AgentTarget } from '../agents/agent.js';
import { jambonz } from '../agents/providers/streams/jambonz.js';
import type { AgentLink } from '../engine.js';

/** A command of the module, without its name: `start …`. Rejects when FreeSWITCH refuses it. */
export type ForkCommand = (endpoint: FsmrfEndpoint, words: readonly string[]) => Promise<void>;

/** Without a name of its own a fork cannot be stopped. */
const name = 'trunkline';
const events = {
  connected: 'mod_audio_fork::connect',
  refused: 'mod_audio_fork::connect_failed',
  ended: 'mod_audio_fork::disconnect',
} as const;

/** Why FreeSWITCH cannot carry this agent's audio, in one sentence; null when it can. */
export function whyNotForked(target: AgentTarget): string | null {
  if (target.protocol !== 'jambonz') return `mod_audio_fork does not speak the protocol ${target.protocol}.`;
  if (target.recorded) return 'The call is recorded, and a recording needs the audio in Trunkline.';
  if (target.removeEcho) return 'The echo is removed from what the agent hears, which needs the audio in Trunkline.';
  if (!target.allowPrivateAddress)
    return 'FreeSWITCH looks the agent up itself, and cannot keep private addresses out (allow_private_targets).';
  if (Object.keys(conversationOf(target).upgrade().headers).length > 0)
    return 'The endpoint has credentials or headers, which FreeSWITCH does not get.';
  return null;
}

function conversationOf(target: AgentTarget) {
  return jambonz.converse(jambonz.parseConfig(target.config), target);
}

export class AudioFork implements AgentLink {
  readonly ended: Promise<AgentEnd>;
  #end!: (end: AgentEnd) => void;
  #isOver = false;
  #endpoint: FsmrfEndpoint | null = null;
  readonly #conversation: ReturnType<typeof conversationOf>;

  /** `phone`: the channel of the phone, once it can be commanded. */
  constructor(
    private readonly target: AgentTarget,
    private readonly order: ForkCommand,
    private readonly phone: () => Promise<FsmrfEndpoint>,
  ) {
    this.#conversation = conversationOf(target);
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /**
   * Connects the agent to this phone; again after the phone moved to another server. Resolves when FreeSWITCH reports the connection.
   * Rejects with `AgentFailure`.
   */
  async connect(signal: AbortSignal | null): Promise<void> {
    const { target } = this;
    const endpoint = await this.phone();
    const { url } = this.#conversation.upgrade();
    const rate = String(this.#conversation.format.sampleRateHz);
    const [first] = this.#conversation.start();
    this.#endpoint = endpoint;
    const over = new AbortController();
    const answered = new Promise<void>((resolve, reject) => {
      const on = (event: string, heard: (said: unknown) => void) => {
        endpoint.addCustomEventListener(event, heard);
        over.signal.addEventListener('abort', () => endpoint.removeListener(event, heard));
      };
      on(events.connected, () => resolve());
      on(events.refused, (said) => {
        const { reason } = (said ?? {}) as { reason?: string };
        reject(new AgentFailure('refused', `FreeSWITCH could not reach the agent: ${reason ?? 'no reason'}.`, true));
      });
    });
    answered.catch(() => undefined);
    // asked for before the fork begins: an agent may close at once
    endpoint.addCustomEventListener(events.ended, () => {
      if (this.#endpoint === endpoint)
        this.#over({ by: 'hangup', detail: 'The agent closed its connection to FreeSWITCH.' });
    });
    try {
      await withDeadline(target.connectTimeoutMs, 'the agent, by FreeSWITCH', signal, async () => {
        const words = ['start', encodeUrl(url), 'mono', rate, name, quoted(String(first)), 'true', 'true', rate];
        await this.order(endpoint, words);
        await answered;
      });
    } catch (error) {
      this.#tell(['stop', name]);
      this.#endpoint = null;
      if (error instanceof AgentFailure) throw error;
      const said = error instanceof Error ? error.message : String(error);
      throw new AgentFailure(signal?.aborted ? 'aborted' : 'timeout', said, !signal?.aborted);
    } finally {
      over.abort();
    }
  }

  /** An agent that is connected already began then. */
  start(): void {
    if (this.#endpoint === null) this.connect(null).catch((error: Error) => this.fail(error.message));
  }

  onEvent(_listener: (event: AgentEvent) => void): () => void {
    return () => {};
  }

  command(command: AgentCommand): void {
    if (command.kind === 'hold') this.#tell([command.on ? 'pause' : 'resume', name]);
    else
      for (const digit of command.digits)
        for (const message of this.#conversation.dtmf(digit)) this.#tell(['send_text', name, quoted(String(message))]);
  }

  async close(reason: string): Promise<void> {
    this.#over({ by: 'local', detail: reason });
  }

  /** The phone's server is gone, and no other carries the fork on. */
  fail(detail: string): void {
    this.#endpoint = null;
    this.#over({ by: 'failed', detail });
  }

  #over(end: AgentEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tell(['stop', name]);
    this.#endpoint = null;
    this.#end(end);
  }

  /** A channel that is gone refuses; its end is told elsewhere. */
  #tell(words: readonly string[]): void {
    const endpoint = this.#endpoint;
    if (endpoint) this.order(endpoint, words).catch(() => undefined);
  }
}

/** FreeSWITCH splits the words at bars. */
function encodeUrl(url: string): string {
  return url.replaceAll('|', '%7C').replaceAll("'", '%27');
}

/** JSON as one word: FreeSWITCH reads backslashes, quotes and bars of its own in it, so these are written by their code points. */
export function quoted(json: string): string {
  const byCodePoint = (short: string) => codePoint(JSON.parse(`"${short}"`) as string);
  const plain = json.replace(/\\["\\/bfnrt]/g, byCodePoint);
  return `'${plain.replace(/['|\u0080-\uffff]/g, codePoint)}'`;
}

function codePoint(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
