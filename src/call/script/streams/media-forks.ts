import type { Fork } from '../../../../media/engine.js';
import type { EndpointForCall as Endpoint } from '../../../store/routing/endpoints.js';
import type { StartStream } from '../../../webhook/actions.js';
import { streamStatusFields } from '../../../webhook/request-bodies.js';
import { newStreamSid } from '../../../webhook/twilio-parameters.js';
import { agentTarget } from '../../agent/agent-target.js';
import type { ScriptContext } from '../context.js';
import { streamEndpoint } from './stream-endpoint.js';

const tracks = { inbound: 'caller', outbound: 'agent', both: 'both' } as const;

interface RunningFork {
  name: string;
  /** Stops it, connected or not. */
  stop(): void;
  /** Resolves when it has ended. Never rejects. */
  over: Promise<void>;
}

/** Streams that listen to the call, whatever it does. Their failures are reported, and the call goes on. */
export class MediaForks {
  private readonly running = new Set<RunningFork>();

  constructor(private readonly script: ScriptContext) {}

  /** Does not wait until it is connected. */
  start(action: StartStream, webhook: Endpoint): void {
    const sid = newStreamSid();
    const leave = new AbortController();
    const stream: RunningFork = {
      name: action.stream.name ?? sid,
      stop: () => leave.abort(),
      over: this.run(action, webhook, sid, leave.signal).finally(() => this.running.delete(stream)),
    };
    this.running.add(stream);
  }

  /** `name` null: the stream that was started last. */
  stop(name: string | null): void {
    const named = [...this.running].filter((stream) => name === null || stream.name === name);
    named.at(-1)?.stop();
  }

  async close(): Promise<void> {
    const all = [...this.running];
    for (const stream of all) stream.stop();
    await Promise.all(all.map((stream) => stream.over));
  }

  private async run({ stream, track }: StartStream, webhook: Endpoint, sid: string, leave: AbortSignal): Promise<void> {
    const { party, deps } = this.script;
    const { call, session, facts } = party;
    const tell = (event: 'stream-started' | 'stream-stopped' | 'stream-error', error = '') => {
      this.script.webhook.status(stream.status, event, streamStatusFields(sid, stream.name, event, error));
      if (event === 'stream-error') call.event('agent.warning', { code: 'stream_failed', message: error });
    };
    let fork: Fork;
    try {
      const endpoint = streamEndpoint(webhook, stream, sid);
      const about = { ...facts, custom: stream.custom };
      const target = agentTarget(endpoint, about, deps.agents, deps.agents.connectTimeoutMs);
      fork = await session.fork(target, tracks[track], AbortSignal.any([leave, call.signal]));
    } catch (error) {
      const gaveUp = leave.aborted || call.ending !== null;
      return tell(gaveUp ? 'stream-stopped' : 'stream-error', gaveUp ? '' : String((error as Error).message));
    }
    tell('stream-started');
    const stop = () => void fork.close('the stream is stopped');
    leave.addEventListener('abort', stop, { once: true });
    if (leave.aborted) stop();
    const end = await fork.ended;
    tell(end.by === 'failed' ? 'stream-error' : 'stream-stopped', end.by === 'failed' ? end.detail : '');
  }
}
