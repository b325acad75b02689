import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { MediaEngine } from '../media/engine.js';
import type { SipGateway } from '../sip/leg.js';
import type { LiveCallTable } from './call/core/live-calls.js';
import type { RejectedInvites } from './call/routing/rejected-invites.js';
import type { Histograms } from './histograms.js';

/** The metrics of `GET /metrics` about the process, SIP, media and calls; all values are read on request. */
export function createMetrics(parts: {
  sip: SipGateway;
  /** The requests that the SIP server rejected or dropped before the call logic, by reason; rejects while there is no server. */
  shed: () => Promise<Record<string, number>>;
  media: MediaEngine;
  live: LiveCallTable;
  rejected: RejectedInvites;
  unwrittenRecords: () => number;
  callsFromMemory: () => number;
  writersReplaced: () => number;
  callsExpired: () => number;
  leaseAgeMs: () => number;
  /** Rejects where the SIP server is another program, or there is none at the moment. */
  sipThreadLagMs: () => Promise<number>;
  histograms: Histograms;
  /** null: no traces are made. */
  spansDropped: (() => number) | null;
  /** null: none is set up. */
  redis: { readonly answers: boolean } | null;
}): Registry {
  const { sip, media, live, rejected, redis } = parts;
  const registry = new Registry();
  // The default of 10 ms would wake an idle process a hundred times a second.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  type ByLabel = () => Iterable<readonly [string, number]>;
  const labelledGauge = (name: string, help: string, label: string, read: ByLabel): void => {
    new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        for (const [value, count] of read()) this.set({ [label]: value }, count);
      },
    });
  };
  // Others count; a counter here takes their count over when it is asked.
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  };
  const labelledCounter = (
    name: string,
    help: string,
    label: string,
    read: () => ReturnType<ByLabel> | Promise<ReturnType<ByLabel>>,
  ): void => {
    new Counter({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      async collect() {
        const counts = await read();
        this.reset();
        for (const [value, count] of counts) this.inc({ [label]: value }, count);
      },
    });
  };
  gauge('trunkline_calls_live', 'Calls that have not ended.', () => live.count);
  gauge('trunkline_records_unwritten', 'Writes that wait for the database.', parts.unwrittenRecords);
  counter(
    'trunkline_calls_from_memory_total',
    'Calls that went on although their record was not on disk in time.',
    parts.callsFromMemory,
  );
  counter(
    'trunkline_store_writers_replaced_total',
    'Threads that write the database that died and were replaced.',
    parts.writersReplaced,
  );
  counter(
    'trunkline_calls_expired_total',
    'Calls deleted because they were older than their organization keeps them.',
    parts.callsExpired,
  );
  gauge(
    'trunkline_lease_age_seconds',
    'Since this node renewed its lease in the database; from 6 s on it does nothing that only one node may do.',
    () => parts.leaseAgeMs() / 1000,
  );
  if (parts.spansDropped)
    counter('trunkline_spans_dropped_total', 'Spans of traces that the collector did not take.', parts.spansDropped);
  parts.histograms.register(registry, { hasRedis: redis !== null });
  if (redis)
    gauge(
      'trunkline_redis_answers',
      '1 while Redis answers; 0: this node counts limits alone and knows its own phones only.',
      () => (redis.answers ? 1 : 0),
    );
  gauge('trunkline_sip_connected', '1 while the SIP server is connected.', () => (sip.connected ? 1 : 0));
  counter('trunkline_sip_incoming_calls_total', 'INVITEs that became calls.', () => sip.counters().incomingCalls);
  gauge('trunkline_sip_legs', 'SIP dialogs of calls.', () => sip.counters().activeLegs);
  gauge('trunkline_sip_registrations', 'Live registrations.', () => sip.counters().registrations);
  labelledCounter('trunkline_sip_refused_total', 'Requests refused before the call logic.', 'reason', () =>
    Object.entries(sip.counters().refused),
  );
  labelledCounter(
    'trunkline_sip_shed_total',
    'Calls refused for overload (overload); messages dropped of an address that sends too fast (rateLimited), of strangers who together send too fast (crowded), of silenced addresses (silenced); addresses silenced (offenders).',
    'reason',
    // an external SIP server, or one that is being replaced, has no figures
    async () => Object.entries(await parts.shed().catch(() => ({}))),
  );
  labelledCounter('trunkline_invites_rejected_total', 'INVITEs that became no call.', 'cause', () => rejected.counts);
  gauge('trunkline_media_sessions', 'Media sessions.', () => media.load().sessions);
  labelledGauge('trunkline_media_thread_lag_ms', 'Event-loop lag of each media thread.', 'thread', () =>
    media.load().threads.map((thread, index) => [String(index), thread.eventLoopLagMs] as const),
  );
  new Gauge({
    name: 'trunkline_sip_thread_lag_ms',
    help: 'Event-loop lag of the thread of the embedded SIP server.',
    registers: [registry],
    async collect() {
      const lagMs = await parts.sipThreadLagMs().catch(() => null);
      if (lagMs !== null) this.set(lagMs);
    },
  });
  labelledCounter('trunkline_media_late_total', 'How often a media thread was late by 5 ms or more.', 'cause', () => {
    const { garbageCollection, waitingForCore, ownWork, stopped } = media.load().late;
    return Object.entries({
      ...{ garbage_collection: garbageCollection, waiting_for_core: waitingForCore, own_work: ownWork, stopped },
    });
  });
  labelledGauge('trunkline_rtp_ports', 'RTP port pairs by state.', 'state', () => Object.entries(media.load().ports));
  if (media.load().servers) {
    const servers = () => media.load().servers ?? [];
    labelledGauge('trunkline_media_server_connected', '1 while this FreeSWITCH is connected.', 'server', () =>
      servers().map(({ name, connected }) => [name, connected ? 1 : 0] as const),
    );
    labelledGauge('trunkline_media_server_channels', 'Channels of this process in this FreeSWITCH.', 'server', () =>
      servers().map(({ name, channels }) => [name, channels] as const),
    );
  }
  counter('trunkline_media_faults_total', 'Exceptions that ended a session.', () => media.load().faults);
  counter(
    'trunkline_media_threads_replaced_total',
    'Media threads that died and were replaced.',
    () => media.load().threadsReplaced,
  );
  counter(
    'trunkline_rtp_foreign_packets_total',
    'Packets from a foreign source, dropped.',
    () => media.load().foreignPackets,
  );
  counter('trunkline_rtp_malformed_packets_total', 'Malformed packets, dropped.', () => media.load().malformedPackets);
  return registry;
}
