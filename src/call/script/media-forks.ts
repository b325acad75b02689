import type { Fork } from '../../../media/engine.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { StartStream } from '../../webhook/actions.js';
import { streamStatusFields } from '../../webhook/request-bodies.js';
import { newStreamSid } from '../../webhook/twilio-parameters.js';
import { agentTarget } from '../agent/agent-target.js';
import type { Stage } from './context.js';
import { streamEndpoint } from './stream-endpoint.js';

const tracks = { inbound: 'caller', outbound: 'agent', both: 'both' } as const;

interface SideStream {
  name: string;
  /** Gives it up, connected or not. */
  stop(): void;
  /** Resolves when it is over. Never rejects. */
  over: Promise<void>;
}

/** Streams that listen beside whatever the call does. What goes wrong with them is told, and the call goes on. */
export class SideStreams {
  private readonly running = new Set<SideStream>();

  constructor(private readonly stage: Stage) {}

  /** Does not wait until it is connected. */
  start(action: StartStream, webhook: Endpoint): void {
    const sid = newStreamSid();
    const leave = new AbortController();
    const stream: SideStream = {
      name: action.stream.name ?? sid,
      stop: () => leave.abort(),
      over: this.run(action, webhook, sid, leave.signal).finally(() => this.running.delete(stream)),
    };
    this.running.add(stream);
  }

  /** null: the one that was started last. */
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
    const { line, rules } = this.stage;
    const { call, session, facts } = line;
    const tell = (event: 'stream-started' | 'stream-stopped' | 'stream-error', error = '') => {
      this.stage.status(stream.status, event, streamStatusFields(sid, stream.name, event, error));
      if (event === 'stream-error') call.event('agent.warning', { code: 'stream_failed', message: error });
    };
    let fork: Fork;
    try {
      const endpoint = streamEndpoint(webhook, { url: stream.url, protocol: 'twilio', sid });
      const about = { ...facts, custom: stream.custom };
      const target = agentTarget(endpoint, about, rules.agents, rules.agents.connectTimeoutMs);
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
