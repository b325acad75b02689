import type { Action, FollowUp } from '../../webhook/actions.js';

/** What may be asked of a running call: one path for the API, agents and webhooks. JSON. */
export type CallCommand =
  | { kind: 'hangup' }
  | { kind: 'dtmf'; digits: string }
  /** `replaces`: a dialog of whoever is called that he gives up for this call (RFC 3891). */
  | { kind: 'transfer'; to: string; replaces?: string }
  /** What is said while it is paused is not in the recording. */
  | { kind: 'recording'; paused: boolean }
  /** The call leaves what it does and follows these, or what this address answers. */
  | { kind: 'redirect'; to: { next: FollowUp } | { actions: Action[] } };

export type CommandResult =
  | { ok: true }
  | { ok: false; code: 'not_running' | 'not_answered' | 'failed'; message: string };

export interface CallCommands {
  command(callId: string, command: CallCommand): Promise<CommandResult>;
  readonly count: number;
}
