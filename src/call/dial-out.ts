import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession } from '../../media/engine.js';
import { type CallLeg, SipError, type SipGateway } from '../../sip/leg.js';
import type { Mode } from '../store/scope.js';
import { type Dial, e164 } from '../webhook/instructions.js';
import type { Dialled } from '../webhook/questions.js';
import type { Carrier } from './carriers.js';
import { answerReoffers } from './converse.js';
import { dialCarriers } from './dial-carriers.js';
import type { Line } from './line.js';
import { CallEnded } from './outcome.js';

/** What a call needs to call somebody else. */
export interface DialRules {
  media: MediaEngine;
  policy: MediaPolicy;
  dial: SipGateway['dial'];
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Why this organization may not; null: it may. */
  refusal(organizationId: string, mode: Mode, call: { to: string; from: string | null }): string | null;
}

/** What a caller hears while it rings elsewhere: North America's tone. */
const ringback = {
  kind: 'tone' as const,
  segments: [
    { frequenciesHz: [440, 480], durationMs: 2000 },
    { frequenciesHz: [], durationMs: 4000 },
  ],
  repeat: 0,
};

/** A callee who answered, with the media of that leg. */
interface Answered {
  leg: CallLeg;
  session: MediaSession;
}

/**
 * Calls the numbers of `action`, all at once; the first to answer is joined with the caller until one of them leaves, the time is up or
 * `signal` aborts. `answer` picks up the caller's side. What is left of other attempts is hung up.
 */
export async function dialOut(
  line: Line,
  action: Dial,
  answer: () => Promise<void>,
  rules: DialRules,
  signal: AbortSignal,
): Promise<Dialled> {
  const stop = new AbortController();
  const attempts = AbortSignal.any([signal, stop.signal]);
  if (!action.answerOnBridge) await answer();
  if (line.leg !== null) line.session.play(ringback, attempts).catch(() => {}); // silence does as well
  const dialling = action.to.map((to) => dialOne(line, action, to, rules, attempts));
  let answered: Answered;
  try {
    answered = await Promise.any(dialling);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { status: statusOf((error as AggregateError).errors), to: action.to, durationSec: 0 };
  } finally {
    stop.abort();
  }
  for (const other of dialling)
    other.then(
      (late) => (late === answered ? undefined : hangUp(late)),
      () => {},
    );
  const startedMs = performance.now();
  try {
    await answer();
    await talk(line, answered, action.timeLimitSec, signal);
  } finally {
    await hangUp(answered);
  }
  if (signal.aborted) throw signal.reason;
  return { status: 'completed', to: action.to, durationSec: Math.round((performance.now() - startedMs) / 1000) };
}

async function dialOne(line: Line, action: Dial, to: string, rules: DialRules, signal: AbortSignal): Promise<Answered> {
  const { call, facts, mode } = line;
  let session: MediaSession | null = null;
  const offerFor = async (localAddress: string, codecs: MediaPolicy['codecs']): Promise<string> => {
    await session?.close();
    const policy = { ...rules.policy, codecs };
    session = await rules.media.open({ group: call.id, offer: null, policy, localAddress, role: 'callee' });
    return session.offer();
  };
  let leg: CallLeg | null = null;
  try {
    const carriers = await rules.carriers(facts.organizationId, mode);
    leg = await dialCarriers(
      call,
      {
        sipCallId: randomUUID(),
        to,
        from: action.from ?? (e164.test(facts.from) ? facts.from : facts.to),
        ringTimeoutMs: action.timeoutSec * 1000,
        offerFor,
        onProgress: () => {},
        further: signal,
      },
      carriers,
      rules.dial,
    );
    await leg.confirmed;
    const opened = session as MediaSession | null;
    if (opened === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    await opened.accept(leg.remoteSdp, { provisional: false });
    signal.throwIfAborted();
    answerReoffers(leg, opened);
    return { leg, session: opened };
  } catch (error) {
    await Promise.allSettled([leg?.hangup(), (session as MediaSession | null)?.close()]);
    throw error;
  }
}

/** Resolves when the two are not joined any more. */
async function talk(line: Line, { leg, session }: Answered, timeLimitSec: number, signal: AbortSignal): Promise<void> {
  const bridge = line.session.bridge(session, { relay: 'packets', dtmf: 'pass' });
  let timer: NodeJS.Timeout | undefined;
  try {
    await Promise.race([
      leg.ended,
      session.lost,
      bridge.ended,
      new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeLimitSec * 1000);
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      }),
    ]);
  } finally {
    clearTimeout(timer);
    await bridge.stop();
  }
}

async function hangUp({ leg, session }: Answered): Promise<void> {
  await Promise.allSettled([leg.hangup('normal_clearing'), session.close()]);
}

/** Of several failures the one that says most: somebody was busy, nobody answered, it went wrong. */
function statusOf(errors: readonly unknown[]): Dialled['status'] {
  const causes = errors.map((error) =>
    error instanceof SipError ? error.hangupCause : error instanceof CallEnded ? error.ending.cause : 'unspecified',
  );
  if (causes.includes('user_busy')) return 'busy';
  return causes.includes('no_answer') ? 'no-answer' : 'failed';
}
