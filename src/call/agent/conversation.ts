import type { AgentEnd, AgentEvent } from '../../../media/agents/agent.js';
import type { MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import { carryOut } from '../control/call-commands.js';
import type { Call } from '../core/call.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import { answerReoffers, keyOfInfo } from '../core/leg-requests.js';
import { heardKey, observe } from '../core/party-events.js';
import type { Apology } from './apology.js';
import type { FailoverAgent } from './failover-agent.js';

export interface ConverseLimits {
  maxCallMs: number;
  transferTimeoutMs: number;
  apology: Apology;
}

/** For a call that goes on when its agent leaves: others decide what comes next. */
export interface Visit {
  /** Ends the conversation, not the call. */
  leave: AbortSignal;
  redirect(command: CallCommand & { kind: 'redirect' }): CommandResult;
}

/** Caller and agent talk until something ends the call. Resolves then; `call.ended` says why. A visit ends with the agent too: then with its end. */
export async function converse(
  call: Call,
  leg: CallLeg,
  session: MediaSession,
  agent: FailoverAgent,
  limits: ConverseLimits,
  visit: Visit | null = null,
): Promise<AgentEnd | null> {
  const timeLimit = setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), limits.maxCallMs);
  const unsubscribe = [listenToMedia(call, session, agent), listenToAgent(call, leg, session, agent, limits)];
  call.commands = async (command) =>
    command.kind === 'redirect' && visit !== null
      ? visit.redirect(command)
      : carryOut(command, 'api', call, leg, session, limits.transferTimeoutMs);
  listenToWords(call, agent);
  void agent.ended.then(
    call.guarded((end) => {
      if (visit !== null || call.handedOver) return;
      const cause = end.by === 'failed' ? 'agent_error' : 'agent_hangup';
      void limits.apology.end(call, session, { cause, source: 'agent', detail: end.detail });
    }),
  );
  call.onHandOver(() => agent.close('transferred'));
  answerReoffers(leg, session);
  leg.onInfo(
    call.guarded((info) => {
      const digit = keyOfInfo(info);
      if (digit === null) return;
      agent.command({ kind: 'dtmf', digits: digit });
      heardKey(call, digit, 'info');
    }),
  );
  agent.start();
  try {
    if (visit === null) await call.ended;
    else return await Promise.race([call.ended.then(() => null), agent.ended, left(visit.leave)]);
    return null;
  } finally {
    clearTimeout(timeLimit);
    call.commands = null;
    for (const stop of unsubscribe) stop();
  }
}

function left(leave: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (leave.aborted) resolve(null);
    else leave.addEventListener('abort', () => resolve(null), { once: true });
  });
}

/** What the agent learns of the phone; the record has it already. */
function listenToMedia(call: Call, session: MediaSession, agent: FailoverAgent): () => void {
  return observe(session, call, (event) => {
    if (event.type === 'dtmf') agent.command({ kind: 'dtmf', digits: event.digit });
    else if (event.type === 'held') agent.command({ kind: 'hold', on: true });
    else if (event.type === 'resumed') agent.command({ kind: 'hold', on: false });
  });
}

/** To the end of the agent, which comes after the end of the conversation: only then it is known how much of its last words was heard. */
function listenToWords(call: Call, agent: FailoverAgent): void {
  agent.onEvent(
    call.guarded((event) => {
      if (event.type !== 'transcript') return;
      call.transcript.add(event);
      call.event('transcript.final', { speaker: event.speaker, text: event.text });
    }),
  );
}

function listenToAgent(
  call: Call,
  leg: CallLeg,
  session: MediaSession,
  agent: FailoverAgent,
  limits: ConverseLimits,
): () => void {
  return agent.onEvent(
    call.guarded((event) => {
      switch (event.type) {
        case 'audioStarted':
          return;
        case 'reconnected':
          return call.event('agent.reconnected');
        case 'transcript':
          return; // listenToWords
        case 'hangup':
          return call.end({ cause: 'agent_hangup', source: 'agent' });
        case 'transfer':
        case 'dtmf': {
          const command: CallCommand =
            event.type === 'dtmf' ? { kind: 'dtmf', digits: event.digits } : { kind: 'transfer', to: event.to };
          void carryOut(command, 'agent', call, leg, session, limits.transferTimeoutMs);
          return;
        }
        case 'queue':
          return call.event('agent.warning', queueWarning(event));
        case 'warning':
          return call.event('agent.warning', { code: event.code, message: event.message });
      }
    }),
  );
}

const queueSays = {
  high: 'The agent sent more than 9 minutes of audio ahead.',
  full: 'The agent sent more than 10 minutes of audio ahead; what is above that is discarded.',
  normal: 'The audio that the agent sent ahead is under 8 minutes again.',
};

function queueWarning({ level, queuedMs }: Extract<AgentEvent, { type: 'queue' }>) {
  return { code: `playout_${level}`, message: queueSays[level], queued_ms: queuedMs };
}
