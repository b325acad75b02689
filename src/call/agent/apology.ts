import type { MediaSession } from '../../../media/engine.js';
import { withDeadline } from '../../../net/deadline.js';
import type { HangupCause } from '../../../sip/cause.js';
import type { Logger } from '../../log.js';
import type { SpeechWarning } from '../../speech/offline-voice.js';
import type { Call } from '../core/call.js';
import type { Ending } from '../core/outcome.js';
import type { PromptPlayer } from '../prompts/prompt-player.js';

/** Nobody is left to talk to, and the far side has done nothing to end it. */
const unexplained: ReadonlySet<HangupCause> = new Set<HangupCause>([
  'agent_unreachable',
  'agent_error',
  'webhook_error',
]);
/** With the time that a speech server takes. */
const limitMs = 10_000;

/** A few words to somebody who is about to be hung up on for no reason of his own. */
export class Apology {
  /** Empty `text`: none. */
  constructor(
    private readonly voice: Pick<PromptPlayer, 'speak'>,
    private readonly text: string,
    private readonly log: Logger,
  ) {}

  /**
   * Ends the call as `ending` says; when its agent is lost, the far side is told first. What happens meanwhile may only make it end sooner.
   */
  async end(call: Call, session: MediaSession | null, ending: Ending): Promise<void> {
    if (this.text !== '' && session !== null && call.answered && unexplained.has(ending.cause)) {
      if (!call.settle(ending)) return; // it is being said
      await this.say(call, session).catch((error: unknown) => {
        if (!call.signal.aborted) this.log.warn({ err: error, call_id: call.id }, 'the apology was not said');
      });
    }
    call.end(ending);
  }

  private async say(call: Call, session: MediaSession): Promise<void> {
    session.attach(null);
    const say = { action: 'say', text: this.text, voice: null, language: null, loop: 1 } as const;
    const warn = ({ code, message }: SpeechWarning) => call.event('agent.warning', { code, message });
    await withDeadline(limitMs, 'the end of the apology', call.signal, (signal) =>
      this.voice.speak(session, say, signal, warn),
    );
  }
}
