/** Common parts of the named providers: configuration fields, and defaults for most of `Conversation`. */
import {
  AgentConfigError,
  AgentFailure,
  type AgentMessage,
  type AgentTarget,
  type AudioFormat,
  type Conversation,
  type Plain,
  type Sink,
  type Spoken,
  type Upgrade,
} from './agent.js';
import { clockMs } from './clock.js';
import {
  type ConfigObject,
  configObject,
  optionalNumber,
  optionalObject,
  optionalString,
  optionalText,
  upgradeHeaders,
} from './config-fields.js';
import { type JsonObject, parseObject } from './json.js';
import type { TokenUsage } from './token-usage.js';
import { readTools, type Tool } from './tools.js';
import { fillIn, instructionsWith, type Variables } from './variables.js';

/** The longest text taken from a provider's message. */
export const TEXT_CHARS = 16 * 1024;

export interface ProviderConfig {
  apiKey?: string;
  model?: string;
  voice?: string;
  instructions?: string;
  /** Empty string: the caller speaks first. */
  greeting?: string;
  language?: string;
  temperature?: number;
  tools: Tool[];
  /** Base URL of the REST API; the WebSocket's address is the target. */
  baseUrl?: string;
  headers: Record<string, string>;
  /** Merged into the first message to the provider. */
  override?: ConfigObject;
}

/** `apiKey: 'required'`: the configuration needs `api_key` or a header that authorizes. */
export function readProvider(raw: Plain, apiKey: 'required' | 'optional'): [ProviderConfig, ConfigObject] {
  const config = configObject(raw);
  const read: ProviderConfig = {
    apiKey: optionalText(config, 'api_key'),
    model: optionalText(config, 'model'),
    voice: optionalText(config, 'voice'),
    instructions: optionalString(config, 'instructions'),
    greeting: optionalString(config, 'greeting'),
    language: optionalText(config, 'language'),
    temperature: optionalNumber(config, 'temperature', 0, 2),
    tools: readTools(config),
    baseUrl: optionalText(config, 'base_url'),
    headers: upgradeHeaders(config),
    override: optionalObject(config, 'override'),
  };
  const letIn = Object.keys(read.headers).some((name) => /^(authorization|.*api-key)$/i.test(name));
  if (apiKey === 'required' && read.apiKey === undefined && !letIn)
    throw new AgentConfigError('api_key', 'api_key is required.');
  return [read, config];
}

/** The configuration for one call, of a service that knows no variables: they are filled in here. */
export function personal<C extends ProviderConfig>(config: C, { call: { variables = {} } }: AgentTarget): C {
  const { instructions, greeting } = config;
  return {
    ...config,
    instructions: instructionsWith(instructions, variables),
    greeting: greeting === undefined ? undefined : fillIn(greeting, variables),
  };
}

/** Instruction to an agent without a greeting when the call is answered. */
export const GREET = 'The caller is on the line. Greet them.';

/** Instruction to an agent that takes over from another one during the call. */
export const TAKE_OVER =
  'You take over this phone call from another agent, in the middle of the conversation. Go on where it stopped.';

/** URL of the provider's REST API: as configured, or on the WebSocket's host. */
export function restUrl(config: ProviderConfig, target: AgentTarget, path: string): string {
  const base = config.baseUrl ?? new URL(target.url).origin.replace(/^ws/, 'http');
  return below(base, path);
}

/** A path below a base URL, which may end in slashes. */
export function below(base: string, path: string): string {
  return base.replace(/(?<!\/)\/+$/, '') + path;
}

/** The WebSocket address in a REST answer, as found by `find`. Throws `AgentFailure`. */
export function answered(body: string, find: (answer: JsonObject) => unknown): string {
  const answer = parseObject(body);
  const value = answer === null ? undefined : find(answer);
  if (typeof value !== 'string' || !/^wss?:\/\//i.test(value))
    throw new AgentFailure('protocol', "The provider's answer names no WebSocket address.", false);
  return value;
}

/** `base` with the fields of `over`; objects merge, everything else is replaced. */
export function merged(base: ConfigObject, over: ConfigObject | undefined): ConfigObject {
  if (over === undefined) return base;
  const result: Record<string, Plain> = { ...base };
  for (const [name, value] of Object.entries(over)) {
    const below = result[name];
    result[name] = isObject(value) && isObject(below) ? { ...merged(below, value) } : value;
  }
  return result;
}

/** Leaves out the fields that are undefined. */
export function defined(fields: Record<string, Plain | undefined>): { [key: string]: Plain } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [key: string]: Plain;
  };
}

/** The most lines of a conversation that a new session gets. */
const REMEMBERED = 50;

export abstract class ProviderConversation implements Conversation {
  abstract readonly format: AudioFormat;
  abstract readonly replyFormat: AudioFormat;
  /** For a session that takes over: the conversation with an earlier agent, then with this one. */
  protected readonly history: (Spoken & { beganMs: number })[];
  /** Start of the caller's speech that has no transcript yet, by the provider's item id. */
  readonly #callerBegan = new Map<string, number>();

  constructor(protected readonly target: AgentTarget) {
    this.history = (target.call.history ?? []).slice(-REMEMBERED).map((line) => ({ ...line, beganMs: 0 }));
  }

  abstract upgrade(): Upgrade;
  abstract audio(bytes: Uint8Array, atMs: number): AgentMessage;
  abstract receive(message: string | Uint8Array, sink: Sink): void;
  abstract dtmf(digits: string): AgentMessage[];

  opening(): AgentMessage[] {
    return [];
  }

  start(): AgentMessage[] {
    return [];
  }

  mark(): AgentMessage[] {
    return [];
  }

  interrupted(_heard: { itemId?: string; heardMs: number; droppedMs: number }): AgentMessage[] {
    return [];
  }

  closing(_reason: string): AgentMessage[] {
    return [];
  }

  over(_sink: Sink): void {}

  closed(code: number, _reason: string): ReturnType<Conversation['closed']> {
    return code === 1000 || code === 1001 || code === 1005 ? 'hangup' : 'failed';
  }

  /** What the agent learns of this call, by name. */
  protected get variables(): Variables {
    return this.target.call.variables ?? {};
  }

  /** undefined when there are none. */
  protected get someVariables(): { [name: string]: string } | undefined {
    return Object.keys(this.variables).length === 0 ? undefined : { ...this.variables };
  }

  /** The caller began to speak now or earlier. */
  protected callerBegan(itemId: string): void {
    if (this.#callerBegan.has(itemId)) return;
    this.#callerBegan.set(itemId, clockMs());
    const [oldest = ''] = this.#callerBegan.keys();
    if (this.#callerBegan.size > REMEMBERED) this.#callerBegan.delete(oldest);
  }

  /** The transcript of the caller's speech. */
  protected heardCaller(text: string, sink: Sink, itemId = ''): void {
    const beganMs = this.#callerBegan.get(itemId);
    this.#callerBegan.delete(itemId);
    const line = { speaker: 'caller' as const, text: text.trim() };
    if (line.text === '') return;
    this.remember('caller', line.text, beganMs);
    sink.event({ type: 'transcript', ...line, ...(beganMs !== undefined && { beganMs }) });
  }

  cutShort(whole: string, heard: string): void {
    const isCut = ({ speaker, text }: Spoken) => speaker === 'agent' && whole.includes(text);
    const kept = this.history.findLastIndex((line) => !isCut(line)) + 1;
    const [first] = this.history.splice(kept);
    if (first !== undefined) this.remember('agent', heard, first.beganMs); // keeps its place before the interruption
  }

  /** Another agent had the call before. */
  protected get takesOver(): boolean {
    return (this.target.call.history?.length ?? 0) > 0;
  }

  /** The caller spoke last and waits for an answer. */
  protected get owesAnswer(): boolean {
    return this.history.at(-1)?.speaker === 'caller';
  }

  /** The conversation so far as text lines; empty when there is none. */
  protected get told(): string {
    return this.history.map(({ speaker, text }) => `${speaker}: ${text}`).join('\n');
  }

  protected used(tokens: TokenUsage | null, sink: Sink): void {
    if (tokens !== null) sink.event({ type: 'usage', tokens });
  }

  protected remember(speaker: Spoken['speaker'], text: string, beganMs = clockMs()): void {
    if (text.trim() === '') return;
    const before = this.history.findLastIndex((line) => line.beganMs <= beganMs);
    this.history.splice(before + 1, 0, { speaker, text: text.trim(), beganMs });
    if (this.history.length > REMEMBERED) this.history.shift();
  }
}

/** A key press as text of the caller, for models without DTMF. */
export function keysAsText(digits: string): string {
  return `The caller pressed ${digits} on the phone's keypad.`;
}

/** The object in a text message; anything else is counted. Providers add events at any time, so unknown events are not garbage. */
export function readJson(message: string | Uint8Array, sink: Sink): JsonObject | null {
  if (typeof message !== 'string') {
    sink.garbage('not_text', 'The agent sent a binary message where text is due.');
    return null;
  }
  const fields = parseObject(message);
  if (fields === null) sink.garbage('bad_json', 'The agent sent a text message that is not a JSON object.');
  return fields;
}

/** A provider's error code if it is safe for the record: its error texts may quote keys. */
export function errorCode(code: unknown): string {
  return typeof code === 'string' && /^[A-Za-z0-9_.-]{1,64}$/.test(code) ? code : 'an error without a code';
}

/** A frame of caller audio in base64, without a copy. */
export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function isObject(value: Plain | undefined): value is { [key: string]: Plain } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
