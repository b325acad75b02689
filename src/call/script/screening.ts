import type { Action, DialTarget, FollowUp, Prompt } from '../../webhook/actions.js';
import { screeningQuestion } from '../../webhook/request-bodies.js';
import { Webhook, WebhookFailure } from '../../webhook/webhook-client.js';
import { carryOut } from '../control/call-commands.js';
import type { Application, Key } from '../party/application.js';
import type { CalledParty } from '../party/called.js';
import type { ScriptContext, ScriptDeps } from './context.js';
import { gather } from './input/gather.js';
import { Keypad } from './input/keypad.js';
import { playPrompt, promptsOf } from './prompts.js';
import { ScriptWebhook } from './script-webhook.js';

/**
 * Instructions for a dialled phone that has answered, before it is connected: it hears who calls, and may decline by a key or by hanging
 * up (`<Number url>`). The phone is its own call, whose end stops the instructions at once.
 */
export class Screening implements Application, ScriptContext {
  readonly kind = 'script';
  readonly keypad = new Keypad();
  readonly deps: ScriptDeps;
  readonly webhook: ScriptWebhook;

  constructor(
    readonly party: CalledParty,
    /** The script that dialled it. */
    { deps, webhook }: ScriptContext,
  ) {
    this.deps = deps;
    const client = new Webhook(webhook.endpoint, deps.http, party.call.cookies);
    this.webhook = new ScriptWebhook(party, client, deps.callbacks);
  }

  /** Resolves with true when the instructions have ended and the phone is still there; otherwise its call has ended. */
  async accepts(to: FollowUp, key?: DialTarget['acceptedBy']): Promise<boolean> {
    const { party, webhook } = this;
    const { call, control } = party;
    try {
      await control.connect(this);
      let actions: Action[] | null = await webhook.ask(to, screeningQuestion(party.facts), call.signal);
      while (actions !== null) actions = await this.#follow(actions);
      if (key !== undefined) await this.#awaitKey(key);
    } catch (error) {
      if (call.ending === null && !(error instanceof WebhookFailure)) throw error;
      // A phone that was to be asked first is not connected without it.
      const detail = (error as Error).message;
      call.end({ cause: 'webhook_error', source: 'system', detail });
    } finally {
      await control.release('finished');
    }
    return call.ending === null;
  }

  attach(): void {
    this.party.control.attach(this, null);
  }

  async detach(): Promise<void> {}

  onKey({ digit }: Key): void {
    this.keypad.press(digit);
  }

  onHold(): void {}

  async answer(): Promise<void> {}

  prompt(prompt: Prompt, signal: AbortSignal): Promise<void> {
    return playPrompt(prompt, this.party, this.deps.voice, this.webhook, signal);
  }

  /** Hangs up when none of the keys is pressed in time. */
  async #awaitKey({ keys, timeoutSec }: NonNullable<DialTarget['acceptedBy']>): Promise<void> {
    const { call } = this.party;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutSec * 1000);
    try {
      await this.keypad.oneOf(keys, AbortSignal.any([call.signal, late.signal]));
    } catch {
      call.check();
      call.end({ cause: 'normal_clearing', source: 'system', detail: 'The phone did not press the key.' });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Resolves with the actions that follow; null: none do. */
  async #follow(actions: Action[]): Promise<Action[] | null> {
    const { signal } = this.party.call;
    const session = this.party.hasMedia ? this.party.session : null;
    for (const [index, prompt] of actions.flatMap(promptsOf).entries())
      this.deps.voice.prepare(session, prompt, index === 0);
    for (const action of actions) {
      const next = await this.#perform(action, signal);
      this.party.call.check();
      if (next !== null) return next;
    }
    return null;
  }

  async #perform(action: Action, signal: AbortSignal): Promise<Action[] | null> {
    const { party, webhook } = this;
    switch (action.action) {
      case 'say':
      case 'play':
      case 'pause':
        await this.prompt(action, signal);
        return null;
      case 'gather':
        return gather(this, action, signal);
      case 'dtmf':
        await carryOut({ kind: 'dtmf', digits: action.digits }, 'agent', party, this.deps.limits.transferTimeoutMs);
        return null;
      case 'redirect':
        return webhook.ask(action.next, screeningQuestion(party.facts), signal);
      case 'reject':
      case 'hangup':
        party.call.end({ cause: 'normal_clearing', source: 'agent' });
        return null;
      case 'warn':
        webhook.warn(action.message);
        return null;
      default:
        webhook.warn(`"${action.action}" has no effect before the connection.`);
        return null;
    }
  }
}
