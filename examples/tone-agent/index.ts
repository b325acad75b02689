/**
 * A voice agent for tests and first steps: greets with a tone, answers each utterance of the caller with another, stops when interrupted,
 * and prints the frequency it heard. Speaks both WebSocket protocols: `/raw` and `/twilio`.
 *
 * As a program: `node dist/examples/tone-agent/index.js --port 8091`. As a library: `startToneAgent({ port: 0 })`.
 */
import { type AgentServer, runAsProgram, type ServeOptions, serveAgent } from '../serve.js';
import { type ToneBehaviour, ToneCall, type ToneEvent } from './call.js';

export interface ToneAgentOptions extends ServeOptions, Partial<ToneBehaviour> {
  onEvent?: (event: ToneEvent, call: ToneCall) => void;
}

export interface ToneAgent extends AgentServer {
  /** All calls so far, oldest first. */
  calls: readonly ToneCall[];
}

const BEHAVIOUR: ToneBehaviour = {
  greetingHz: 440,
  greetingMs: 500,
  answerHz: 880,
  answerMs: 400,
  answerDelayMs: 200,
  silenceMs: 300,
};

/** Rejects when the port cannot be opened. */
export async function startToneAgent({ onEvent, ...options }: ToneAgentOptions): Promise<ToneAgent> {
  const behaviour = { ...BEHAVIOUR, ...options };
  const calls: ToneCall[] = [];
  const server = await serveAgent(options, (socket, protocol) => {
    const call: ToneCall = new ToneCall(socket, protocol, behaviour, (event) => onEvent?.(event, call));
    calls.push(call);
  });
  return { ...server, calls };
}

await runAsProgram(import.meta.url, 8091, (options) =>
  startToneAgent({ ...options, onEvent: (event) => process.stdout.write(`${JSON.stringify(event)}\n`) }),
);
