/** Our client of a provider talks to the provider's simulator over a real socket; the test is the phone. */
import { tone } from '../../examples/tone-agent/sound.js';
import type { AgentEvent, AgentTarget, Plain } from '../../media/agents/agent.js';
import type { AgentSocket } from '../../media/agents/connection/agent-socket.js';
import { type AgentSocketOptions, openAgentSocket } from '../../media/agents/connection/socket.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { decodeAudio, encodeAudio } from '../../src/simulator/providers/codec.js';
import type { ProviderProtocol } from '../../src/simulator/providers/provider-protocol.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import {
  type ProviderSimulator,
  type SimulatedCall,
  type SimulatorOptions,
  simulateProvider,
} from '../../src/simulator/providers/serve.js';
import { agentTarget, CALL, ProviderState } from './agent-rig.js';

/** What a user must give for each provider. */
export const PROVIDER_CONFIG: Readonly<Record<string, { [field: string]: Plain }>> = Object.fromEntries(
  [...agentProtocols.values()].map(({ provider, example }) => [provider, example]),
);

const selectedBy = (field: string) =>
  [...agentProtocols.values()].filter((each) => each.selectedBy === field).map(({ provider }) => provider);
export const NAMED = selectedBy('provider');
export const STREAMS = selectedBy('protocol');

export interface Wish {
  config?: { [field: string]: Plain };
  target?: Partial<AgentTarget>;
  simulator?: Partial<SimulatorOptions>;
  dialect?: Partial<ProviderProtocol>;
  options?: AgentSocketOptions;
}

/** What a queue of the phone would say: the last item was heard for a tenth of a second, and as much was dropped. */
class PhoneHooks extends ProviderState {
  readonly clears: number[] = [];
  #item: string | undefined;

  override audio(bytes: Uint8Array, itemId?: string): void {
    this.#item = itemId;
    super.audio(bytes);
  }

  override clear() {
    super.clear();
    this.clears.push(this.heard().length);
    return { itemId: this.#item, heardMs: 100.5, droppedMs: 100 };
  }
}

export class AgentConversation {
  #atMs = 0;

  private constructor(
    readonly provider: string,
    readonly simulator: ProviderSimulator,
    readonly socket: AgentSocket,
    readonly hooks: PhoneHooks,
  ) {}

  /** Connected, ready and started. */
  static async start(provider: string, wish: Wish = {}): Promise<AgentConversation> {
    const conversation = await AgentConversation.open(provider, wish);
    await conversation.socket.ready;
    conversation.socket.start();
    return conversation;
  }

  static async open(provider: string, wish: Wish = {}): Promise<AgentConversation> {
    const dialect = { ...providerProtocols.get(provider)!, ...wish.dialect };
    const simulator = await simulateProvider(dialect, { port: 0, answerDelayMs: 0, ...wish.simulator });
    const hooks = new PhoneHooks();
    const config = { ...PROVIDER_CONFIG[provider], ...wish.config };
    const target = agentTarget({ protocol: provider, url: simulator.url, config, ...wish.target });
    const socket = openAgentSocket(target, hooks, new AbortController().signal, wish.options);
    return new AgentConversation(provider, simulator, socket, hooks);
  }

  /** The newest connection. */
  get call(): SimulatedCall {
    return this.simulator.calls.at(-1)!;
  }

  get facts() {
    return CALL;
  }

  get events(): AgentEvent[] {
    return this.hooks.events;
  }

  /** As fast as the socket takes it: the clocks of the simulators are made of audio. */
  speak(frequencyHz: number, durationMs: number): void {
    this.#frames(tone(frequencyHz, durationMs, this.socket.format.sampleRateHz));
  }

  silence(durationMs: number): void {
    this.#frames(new Int16Array((this.socket.format.sampleRateHz * durationMs) / 1000));
  }

  press(digits: string): void {
    this.socket.command({ kind: 'dtmf', digits });
  }

  /** All of the agent's audio so far. */
  heard(): Int16Array {
    const bytes = this.hooks.heard();
    return decodeAudio(bytes, this.socket.replyFormat.encoding);
  }

  /** Plays everything that waits: the marks behind it are reached. */
  playOut(): void {
    for (const name of this.hooks.marks.splice(0)) this.socket.markReached(name, false);
  }

  async until(condition: () => boolean, what: string): Promise<void> {
    const limitAt = performance.now() + 5000;
    while (!condition()) {
      if (performance.now() > limitAt) throw new Error(`${this.provider}: waited 5 s until ${what}.`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async end(): Promise<void> {
    await this.socket.close('the caller hung up');
    await this.simulator.close();
  }

  #frames(samples: Int16Array): void {
    const { encoding, sampleRateHz } = this.socket.format;
    const step = sampleRateHz / 50;
    for (let at = 0; at + step <= samples.length; at += step) {
      this.socket.audio(encodeAudio(samples.subarray(at, at + step), encoding), this.#atMs);
      this.#atMs += 20;
    }
  }
}
