import { withDeadline } from '../../../net/deadline.js';
import type { HangupCause } from '../../../sip/cause.js';
import type { Logger } from '../../log.js';
import type { SpeechWarning } from '../../speech/offline-voice.js';
import type { Ending } from '../core/outcome.js';
import type { Application } from '../party/application.js';
import type { CallParty } from '../party/party.js';
import type { PromptPlayer } from '../prompts/prompt-player.js';

/** The agent or the webhook was lost, and the phone did nothing to end the call. */
const unexplained: ReadonlySet<HangupCause> = new Set<HangupCause>([
  'agent_unreachable',
  'agent_error',
  'webhook_error',
]);
/** With the time that a speech server takes. */
const limitMs = 10_000;

/** Says a few words before a call is hung up for no reason of its caller. */
export class Apology {
  /** Empty `text`: nothing is said. */
  constructor(
    private readonly voice: Pick<PromptPlayer, 'speak'>,
    private readonly text: string,
    private readonly log: Logger,
  ) {}

  /** Ends the call as `ending` says, after the apology when its agent is lost. What happens meanwhile can only make it end sooner. */
  async end(party: CallParty, ending: Ending): Promise<void> {
    const { call } = party;
    if (this.text !== '' && party.hasMedia && call.answered && unexplained.has(ending.cause)) {
      if (!call.settle(ending)) return; // it is being said
      await this.say(party).catch((error: unknown) => {
        if (!call.signal.aborted) this.log.warn({ err: error, call_id: call.id }, 'the apology was not said');
      });
    }
    call.end(ending);
  }

  private async say(party: CallParty): Promise<void> {
    const { call, control, session } = party;
    const announcement: Application = {
      kind: 'announcement',
      attach: () => control.attach(announcement, null),
      detach: async () => {},
      onKey: () => {},
      onHold: () => {},
    };
    const left = control.connect(announcement);
    if (control.current !== announcement) return left; // refused: the party talks with something else
    const say = { action: 'say', text: this.text, voice: null, language: null, loop: 1 } as const;
    const warn = ({ code, message }: SpeechWarning) => call.event('agent.warning', { code, message });
    const said = withDeadline(limitMs, 'the end of the apology', call.signal, (signal) =>
      this.voice.speak(session, say, signal, warn),
    );
    await Promise.all([left, said]);
  }
}
