import type { CallCommand, CallCommands, CommandResult } from './command.js';

/** The way to calls of other nodes. */
export interface OtherNodes {
  send(
    callId: string,
    command: string,
  ): Promise<{ kind: 'answered'; answer: string } | { kind: 'not_running' } | { kind: 'unreachable'; message: string }>;
  serve(handle: (callId: string, command: string) => Promise<string>): void;
}

/** Commands to calls, whichever node runs them. */
export class CallsOfAllNodes implements CallCommands {
  /** `written`: resolves when the records of this node's calls are written. `others` null: there is one node only. */
  constructor(
    private readonly live: CallCommands,
    private readonly others: OtherNodes | null,
    private readonly written: () => Promise<unknown>,
  ) {
    others?.serve(async (callId, command) => {
      const result = await live.command(callId, JSON.parse(command) as CallCommand).catch(asFailure);
      await written(); // the node that asked reads the record next
      return JSON.stringify(result);
    });
  }

  get count(): number {
    return this.live.count;
  }

  async command(callId: string, command: CallCommand): Promise<CommandResult> {
    const here = await this.live.command(callId, command);
    if (here.ok || here.code !== 'not_running' || this.others === null) return here;
    await this.written(); // it may have begun or ended here a moment ago
    const sent = await this.others.send(callId, JSON.stringify(command));
    if (sent.kind === 'answered') return JSON.parse(sent.answer) as CommandResult;
    return sent.kind === 'unreachable' ? { ok: false, code: 'unreachable', message: sent.message } : here;
  }
}

function asFailure(error: unknown): CommandResult {
  return { ok: false, code: 'failed', message: error instanceof Error ? error.message : 'The command failed.' };
}
