/**
 * What is known of a provider before a call: its configuration, its addresses, its audio and what it can do. The API's validation, the
 * OpenAPI description, the table in `docs/providers/README.md` and the contract tests read it. Plain data, so that no thread loads a schema
 * library or a codec for it.
 */
import type { ConfigProperties } from './config-schema.js';

/** A provider, of which the conversation (`AgentProtocol`) is the part that runs on a media thread. */
export interface ProviderDescriptor {
  /** The value of `provider`, or of `protocol` when `selectedBy` says so. */
  provider: string;
  /** The product's own name. */
  title: string;
  /** File in `docs/providers/`. */
  page: string;
  /** `protocol`: a stream protocol of endpoints with `provider: "custom"`. */
  selectedBy: 'provider' | 'protocol';
  /** The fields of `provider_config` beyond those that all providers take, as JSON Schema. */
  config: ConfigProperties;
  /** The service's models and voices that are used when the configuration names none, by field. */
  defaults?: { readonly [field: string]: string };
  /** The least configuration that is accepted, with made-up values. */
  example: { readonly [field: string]: string };
  /** Absent: reached by SIP only. */
  capabilities?: ProviderCapabilities;
  sip?: SipIngress;
  /** The schemes that the URL of its target may have; absent: those of a WebSocket. */
  schemes?: readonly string[];
}

export const WEBSOCKET_SCHEMES: readonly string[] = ['ws', 'wss'];

/** What a conversation can do: a row of the documentation, and the expectations of the contract tests. */
export interface ProviderCapabilities {
  /** Audio to the agent when nothing else is configured. */
  audio: string;
  /** The messages that flush the playout queue, if there are any; the first is the one that its simulator sends. */
  flush: readonly string[];
  /** The message that reports how much of the agent's speech was heard. */
  heard?: string;
  /** What happens with audio of an interrupted utterance that arrives after the flush. */
  afterFlush: string;
  /** How keys arrive: as a line of `text`, in this message; natively, each in this message; or not at all. */
  keys: { as: 'text' | 'key'; message: string } | { as: 'none' };
  /** How the agent hangs up: by calling a function, by closing the socket, or by a message. */
  hangUp: { by: 'function' | 'close' | 'signal'; words: string };
  /** How the agent asks for a transfer; absent: it cannot. */
  transfer?: 'function' | 'signal';
  /** Messages sent to keep the socket open, besides the silence that all agents get. */
  keepAlive?: string;
  /** Where the `variables` of a call arrive. */
  variables: string;
  /** The message that counts the model's tokens; absent: there is none. */
  tokens?: string;
  /** The longest session, and what comes after it. */
  longestSession: string;
}

/** A provider's address for SIP calls. */
export interface SipIngress {
  /** Its address, when that does not depend on the account. */
  knownTarget?: string;
  /** The fields that a target without a user part needs. */
  needs?: readonly string[];
  /** The user part that the configuration stands for. */
  user?(config: SipConfig): string;
  /** A POST before each INVITE whose answer contains the user part. */
  register?(config: SipConfig, call: SipCallFacts): { url: string; headers: Record<string, string>; body: string };
  registered?(answer: unknown): unknown;
  /** Header fields of the INVITE. */
  headers?(call: SipCallFacts): Record<string, string>;
}

export type SipConfig = Readonly<Record<string, unknown>>;
export interface SipCallFacts {
  callId: string;
  from: string;
  to: string;
  direction: 'inbound' | 'outbound';
  custom?: Record<string, string>;
  /** The variables of the call; absent when there are none. */
  variables?: Record<string, string>;
}
