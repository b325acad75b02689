import { TextSocket } from '../../../../net/text-socket.js';
import { OngoingSpeech, ongoingAudio } from '../../../transcription/ongoing-speech.js';
import type { Action, ConversationRelay, FollowUp } from '../../../webhook/actions.js';
import { relayEndedQuestion } from '../../../webhook/request-bodies.js';
import { accountSid, callSid, newRelaySid } from '../../../webhook/twilio-parameters.js';
import { carryOut } from '../../control/call-commands.js';
import type { ScriptContext } from '../context.js';
import { expectedSpeech, Listening } from '../input/listening.js';
import { noEngine } from '../input/transcriptions.js';
import { playPrompt } from '../prompts.js';
import { streamEndpoint } from '../streams/stream-endpoint.js';
import { isBackchannel } from './backchannel.js';
import { type RelayCommand, RelayMessageError, readRelayMessage } from './relay-messages.js';
import { RelaySpeech } from './relay-speech.js';

const openLimitMs = 5000;
const maxMessageBytes = 65_536;
/** Messages that cannot be followed, until the session fails. */
const mostProblems = 20;
/** The silence that ends an utterance. */
const pauseSec = 0.7;
/** How long the caller must speak to interrupt, before a word of it is known. */
const interruptsAfterMs = { high: 0, medium: 300, low: 700 } as const;
/** No acknowledgement is longer. */
const longestBackchannelMs = 1500;
/** After `end` the last words are heard, but not for longer than this. */
const lastWordsMs = 15_000;

/**
 * The call speaks with an application over a WebSocket of texts (Twilio's ConversationRelay): what the caller says is recognized and sent,
 * what comes is spoken, and the caller may interrupt it. Without a transcription engine the application gets keys alone, and an error that
 * says what is needed.
 */
export async function conversationRelay(
  script: ScriptContext,
  action: ConversationRelay,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { party, webhook } = script;
  const { call } = party;
  await script.answer();
  signal.throwIfAborted();
  const session = new RelaySession(script, action);
  const startedMs = performance.now();
  const { failure, handoffData } = await session.run(signal);
  const durationSec = Math.round((performance.now() - startedMs) / 1000);
  if (failure !== null && call.ending === null)
    call.event('agent.warning', {
      code: 'relay_failed',
      message: `The session of ConversationRelay failed: ${failure}`,
    });
  const question = relayEndedQuestion({ sessionSid: session.sid, durationSec, failure, handoffData });
  const { next }: { next: FollowUp | null } = action;
  if (call.ending !== null) webhook.tell(next, question);
  signal.throwIfAborted();
  return next === null ? null : webhook.ask(next, question, signal);
}

class RelaySession {
  readonly sid = newRelaySid();
  readonly #over = new AbortController();
  readonly #speech: RelaySpeech;
  #socket: TextSocket | null = null;
  #listening: Listening | null = null;
  #ongoing: OngoingSpeech | null = null;
  #spoken: string | null;
  #heard: string | null;
  #failure: string | null = null;
  #handoffData: string | null = null;
  #problems = 0;
  #isEnding = false;
  /** The caller began to speak when that was neither to interrupt nor to be reported. */
  #isIgnored = false;
  /** The caller speaks, and whether that interrupts is not known yet. */
  #isUndecided = false;

  constructor(
    private readonly script: ScriptContext,
    private readonly action: ConversationRelay,
  ) {
    this.#spoken = action.language.spoken;
    this.#heard = action.language.heard;
    const { party, deps, webhook } = script;
    this.#speech = new RelaySpeech(
      {
        say: (text, language, signal, heard) => {
          const spoken = language ?? this.#spoken;
          const voice = (spoken === null ? undefined : action.voices[spoken]) ?? action.voice;
          const say = { action: 'say', text, voice, language: spoken, loop: 1 } as const;
          const warn = ({ message, code }: { message: string; code: string }) => webhook.warn(message, code);
          return deps.voice.speak(party.session, say, this.#until(signal), warn, heard);
        },
        play: (url, loop, signal) =>
          playPrompt({ action: 'play', url, loop }, party, deps.voice, webhook, this.#until(signal)),
        keys: async (digits) => {
          await carryOut({ kind: 'dtmf', digits }, 'agent', party, deps.limits.transferTimeoutMs);
        },
      },
      {
        heard: (text) => this.#wasSaid('agent', text),
        interrupted: ({ text, ms }) =>
          this.#send({ type: 'interrupt', utteranceUntilInterrupt: text, durationUntilInterruptMs: String(ms) }),
        failed: (error) => this.#fail((error as Error).message),
        speaking: (isOn) => this.#speaks('agentSpeaking', isOn),
        played: (piece) => {
          if (action.reports.played) this.#send({ type: 'info', name: 'tokensPlayed', value: piece });
        },
      },
    );
  }

  /** Resolves when the session is over. */
  async run(signal: AbortSignal): Promise<{ failure: string | null; handoffData: string | null }> {
    const end = () => this.#over.abort();
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      await this.#open();
      this.#begin();
      await aborted(this.#over.signal);
    } catch (error) {
      if (!this.#over.signal.aborted) this.#failure ??= (error as Error).message;
    } finally {
      signal.removeEventListener('abort', end);
      this.#over.abort();
      this.#speech.close();
      this.#ongoing?.close();
      this.#listening?.stop();
      await Promise.all([this.#socket?.close(), this.#listening?.over]);
    }
    return { failure: this.#failure, handoffData: this.#handoffData };
  }

  async #open(): Promise<void> {
    const { action, script } = this;
    const { endpoint } = script.webhook;
    const { target, providerConfig } = streamEndpoint(endpoint, { url: action.url, protocol: 'twilio' });
    const headers = (providerConfig.headers ?? {}) as { [name: string]: string };
    const allowPrivateAddress = script.deps.agents.allowPrivateTargets;
    const onText = (text: string) => this.#take(text);
    const options = { headers, allowPrivateAddress, openLimitMs, maxMessageBytes, onText };
    const socket = await TextSocket.open(target, options, this.#over.signal);
    this.#socket = socket;
    void socket.ended.then(({ failure }) => {
      this.#failure ??= failure;
      this.#over.abort();
    });
  }

  #begin(): void {
    const { action, script } = this;
    const { facts } = script.party;
    this.#send({
      ...{ type: 'setup', sessionId: this.sid, accountSid: accountSid(facts.organizationId) },
      ...{ callSid: callSid(facts.callId), parentCallSid: facts.parentCallId ? callSid(facts.parentCallId) : '' },
      ...{ from: facts.from, to: facts.to, forwardedFrom: '', callerName: facts.fromName ?? '' },
      ...{ direction: facts.direction, callType: 'PSTN', callStatus: 'IN-PROGRESS' },
      customParameters: action.custom,
    });
    if (script.deps.transcription === null) {
      script.webhook.warn(`The application hears no speech: there is ${noEngine}.`);
      this.#send({ type: 'error', description: `Speech is not recognized: there is ${noEngine}.` });
    }
    this.#listen();
    void this.#keys();
    const { welcome, preemptible } = action;
    if (welcome !== null)
      this.#speech.text(welcome.text, true, { interruptible: welcome.interruptible, preemptible }, null);
  }

  /** Hears the caller in the language of now. */
  #listen(): void {
    const { party, deps } = this.script;
    const { partialPrompts, ignoreBackchannel, interruptSensitivity, hints } = this.action;
    this.#listening?.stop();
    this.#ongoing?.close();
    const { transcription: engine } = deps;
    if (engine === null || this.#over.signal.aborted) return;
    const expected = expectedSpeech(this.#heard, hints);
    const waitMs = ignoreBackchannel ? longestBackchannelMs : interruptsAfterMs[interruptSensitivity];
    if (partialPrompts || waitMs > 0)
      this.#ongoing = new OngoingSpeech(
        (port) => party.session.tap(port, { tracks: 'caller', ...ongoingAudio }),
        engine,
        expected,
        {
          spoke: (ms) => {
            if (ms >= waitMs) this.#decide();
          },
          ...((partialPrompts || ignoreBackchannel) && { words: (text: string) => this.#hearPart(text) }),
        },
      );
    this.#listening = new Listening(
      party,
      engine,
      { speechTimeoutSec: this.action.pauseSec ?? pauseSec, ...expected },
      {
        begun: () => {
          this.#speaks('clientSpeaking', true);
          this.#isIgnored = false;
          this.#isUndecided = waitMs > 0 && this.#speech.isSpeaking;
          if (!this.#isUndecided) this.#interrupt('speech');
          this.#ongoing?.begin();
        },
        ended: () => {
          this.#ongoing?.end();
          this.#speaks('clientSpeaking', false);
        },
        said: (text) => {
          const wasUndecided = this.#isUndecided;
          if (wasUndecided && ignoreBackchannel && isBackchannel(text)) {
            this.#isUndecided = false;
            return;
          }
          this.#decide();
          if (this.#isIgnored) {
            this.#isIgnored = false;
            return;
          }
          this.#wasSaid('caller', text);
          this.#speech.answersNow();
          this.#prompt(text, true);
        },
      },
    );
  }

  /** The words of an utterance that goes on. */
  #hearPart(text: string): void {
    const { partialPrompts, ignoreBackchannel } = this.action;
    if (ignoreBackchannel && this.#isUndecided) {
      if (isBackchannel(text)) return;
      this.#decide();
    }
    if (partialPrompts && !this.#isIgnored) this.#prompt(text, false);
  }

  /** What the caller says counts: it interrupts what it may. */
  #decide(): void {
    if (!this.#isUndecided) return;
    this.#isUndecided = false;
    this.#interrupt('speech');
  }

  #prompt(voicePrompt: string, last: boolean): void {
    this.#send({ type: 'prompt', voicePrompt, lang: this.#heard ?? 'en-US', last });
  }

  async #keys(): Promise<void> {
    const { keypad } = this.script;
    while (!this.#over.signal.aborted) {
      const digit = await keypad.oneOf('0123456789*#ABCD', this.#over.signal).catch(() => null);
      if (digit === null) return;
      if (this.#interrupt('dtmf')) this.#speech.answersNow();
      if (this.action.dtmf) this.#send({ type: 'dtmf', digit });
    }
  }

  #interrupt(by: 'speech' | 'dtmf'): boolean {
    const wasSpeaking = this.#speech.isSpeaking;
    const isInterrupted = this.#speech.interrupt(by);
    const { reportsDuringSpeech: reports } = this.action;
    if (by === 'speech') this.#isIgnored = wasSpeaking && !isInterrupted && reports !== 'any' && reports !== 'speech';
    return isInterrupted;
  }

  #take(text: string): void {
    if (this.#over.signal.aborted || this.#isEnding) return;
    try {
      this.#follow(readRelayMessage(text));
    } catch (error) {
      if (!(error instanceof RelayMessageError)) {
        this.#fail((error as Error).message);
        return;
      }
      this.#problems += 1;
      this.#send({ type: 'error', description: `Invalid message received: ${error.message}.` });
      if (this.#problems >= mostProblems) this.#fail(`The application sent ${mostProblems} messages that are invalid.`);
    }
  }

  #follow(command: RelayCommand): void {
    const { action } = this;
    switch (command.type) {
      case 'text':
      case 'play': {
        const terms = {
          interruptible: command.interruptible ?? action.interruptible,
          preemptible: command.preemptible ?? action.preemptible,
        };
        if (command.type === 'play') this.#speech.play(command.url, command.loop, terms);
        else this.#speech.text(command.token, command.last, terms, command.language);
        return;
      }
      case 'keys':
        this.#speech.keys(command.digits);
        return;
      case 'language':
        this.#spoken = command.spoken ?? this.#spoken;
        if (command.heard !== null && command.heard !== this.#heard) {
          this.#heard = command.heard;
          this.#listen();
        }
        return;
      case 'end':
        this.#isEnding = true;
        this.#handoffData = command.handoffData;
        void this.#endAfterLastWords();
    }
  }

  async #endAfterLastWords(): Promise<void> {
    const limit = setTimeout(() => this.#over.abort(), lastWordsMs);
    await Promise.race([this.#speech.drained(), aborted(this.#over.signal)]);
    clearTimeout(limit);
    this.#over.abort();
  }

  #wasSaid(speaker: 'caller' | 'agent', text: string): void {
    const { call } = this.script.party;
    if (call.ending !== null) return;
    call.said({ speaker, text });
  }

  #speaks(name: 'agentSpeaking' | 'clientSpeaking', isOn: boolean): void {
    if (this.action.reports.speakers) this.#send({ type: 'info', name, value: isOn ? 'on' : 'off', ts: Date.now() });
  }

  #send(message: object): void {
    this.#socket?.send(JSON.stringify(message));
  }

  #fail(reason: string): void {
    if (!this.#over.signal.aborted) this.#failure ??= reason;
    this.#over.abort();
  }

  #until(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#over.signal]);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });
}
