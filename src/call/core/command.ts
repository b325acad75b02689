import type { RedactionChange } from '../../../media/agents/agent.js';
import type { Action, FollowUp, StatusCallback } from '../../webhook/actions.js';

/** Commands for a running call, from the API, agents and webhooks. JSON. */
export type CallCommand =
  | { kind: 'hangup' }
  | { kind: 'dtmf'; digits: string }
  /** `replaces`: a dialog of the target that it gives up for this call (RFC 3891). */
  | { kind: 'transfer'; to: string; replaces?: string }
  /** While paused, the recording gets silence. */
  | { kind: 'recording'; paused: boolean }
  /** Begins or ends a passage whose keys, spoken numbers and audio are not stored. */
  | ({ kind: 'redaction' } & RedactionChange)
  /** Begins a recording of its own. `endpointId`: whose secret signs the status callbacks. */
  | {
      kind: 'begin_recording';
      id: string;
      tracks: 'both' | 'phone';
      status: StatusCallback | null;
      endpointId: string | null;
    }
  /** Of a recording that was begun so. */
  | { kind: 'change_recording'; id: string; to: RecordingStatus }
  /** The call leaves its current action and follows these actions, or those that this address answers. */
  | { kind: 'redirect'; to: { next: FollowUp } | { actions: Action[] } };

export type RecordingStatus = 'in-progress' | 'paused' | 'stopped';

export type CommandResult =
  | { ok: true }
  /** `unreachable`: the node that runs the call is dead or does not answer. */
  | { ok: false; code: 'not_running' | 'not_answered' | 'failed' | 'unreachable'; message: string };

export interface CallCommands {
  command(callId: string, command: CallCommand): Promise<CommandResult>;
  readonly count: number;
}
