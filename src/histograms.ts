/** How long things take, as histograms of `GET /metrics`. In seconds, as Prometheus has them. */
import { Histogram, type Registry } from 'prom-client';
import type { EndedCall } from './call/core/ended-call.js';
import type { AudioDelay } from './call/core/quality-metrics.js';

const millis = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const pauses = [0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10];
const setUps = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60];

function histogram<L extends string = never>(name: string, help: string, buckets: number[], ...labelNames: L[]) {
  return new Histogram<L>({ name, help, buckets, labelNames, registers: [] });
}

export class Histograms {
  private readonly setUp = histogram(
    'trunkline_call_setup_seconds',
    'From the INVITE, received or sent, to its final answer, of answered calls.',
    setUps,
    'direction',
  );
  private readonly agentConnect = histogram(
    'trunkline_agent_connect_seconds',
    'Until an agent was ready: its WebSocket and session, or the answer of one behind SIP.',
    setUps,
    'kind',
  );
  private readonly turnResponse = histogram(
    'trunkline_turn_response_seconds',
    "From the end of the caller's speech to the agent's, of each turn.",
    pauses,
  );
  private readonly audioDelay = histogram(
    'trunkline_call_audio_delay_seconds',
    'Delay of audio at p95 of each call, by hop (caller_network, gateway_uplink, gateway_playout).',
    millis,
    'hop',
  );
  private readonly databaseWrite = histogram(
    'trunkline_database_write_seconds',
    'Until a batch of what calls write was committed.',
    millis,
  );
  private readonly nodeCommand = histogram(
    'trunkline_node_command_seconds',
    'Until a command to a call of another node was answered.',
    millis,
  );
  private readonly redisTime = histogram('trunkline_redis_seconds', 'Until Redis answered.', millis);

  readonly ended = ({ direction, timings, agentConnects, quality, turns }: EndedCall): void => {
    if (timings.setupMs !== undefined) this.setUp.observe({ direction }, timings.setupMs / 1000);
    for (const { kind, ms } of agentConnects) this.agentConnect.observe({ kind }, ms / 1000);
    for (const { speaker, responseMs } of turns)
      if (speaker === 'agent' && responseMs !== null) this.turnResponse.observe(responseMs / 1000);
    const delay = quality.audio_delay as AudioDelay | undefined;
    for (const hop of ['caller_network', 'gateway_uplink', 'gateway_playout'] as const) {
      const p95Ms = delay?.[hop]?.p95_ms;
      if (p95Ms !== undefined) this.audioDelay.observe({ hop }, p95Ms / 1000);
    }
  };

  readonly batchWritten = (ms: number): void => this.databaseWrite.observe(ms / 1000);

  readonly commandAnswered = (ms: number): void => this.nodeCommand.observe(ms / 1000);

  readonly redisAnswered = (ms: number): void => this.redisTime.observe(ms / 1000);

  register(registry: Registry, parts: { hasRedis: boolean }): void {
    const always = [this.setUp, this.agentConnect, this.turnResponse, this.audioDelay, this.databaseWrite];
    for (const each of [...always, this.nodeCommand, ...(parts.hasRedis ? [this.redisTime] : [])])
      registry.registerMetric(each as Histogram);
  }
}
