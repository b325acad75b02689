import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { MediaEngine } from '../media/engine.js';
import type { SipGateway } from '../sip/leg.js';
import type { LiveCallTable } from './call/live-calls.js';
import type { RejectedInvites } from './call/rejected-invites.js';

/** What `GET /metrics` shows of the process, SIP, media and calls; all figures are read when asked. */
export function createMetrics(parts: {
  sip: SipGateway;
  /** What the SIP server refused or dropped before the call logic; rejects while there is none. */
  shed: () => Promise<Record<string, number>>;
  media: MediaEngine;
  live: LiveCallTable;
  rejected: RejectedInvites;
  unwrittenRecords: () => number;
}): Registry {
  const { sip, media, live, rejected } = parts;
  const registry = new Registry();
  // Its own 10 ms would wake an idle process a hundred times a second.
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
  const labelled = (
    name: string,
    help: string,
    label: string,
    read: () => Iterable<readonly [string, number]>,
  ): void => {
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
  gauge('trunkline_calls_live', 'Calls that have not ended.', () => live.count);
  gauge('trunkline_records_unwritten', 'Writes that wait for the database.', parts.unwrittenRecords);
  gauge('trunkline_sip_connected', '1 while the SIP server is connected.', () => (sip.connected ? 1 : 0));
  gauge('trunkline_sip_incoming_calls_total', 'INVITEs that became calls.', () => sip.counters().incomingCalls);
  gauge('trunkline_sip_legs', 'SIP dialogs of calls.', () => sip.counters().activeLegs);
  gauge('trunkline_sip_registrations', 'Live registrations.', () => sip.counters().registrations);
  labelled('trunkline_sip_refused_total', 'Requests refused before the call logic.', 'reason', () =>
    Object.entries(sip.counters().refused),
  );
  new Gauge({
    name: 'trunkline_sip_shed_total',
    help: 'Calls refused for overload (overload); messages dropped of an address that sends too fast (rateLimited), of strangers who together send too fast (crowded), of silenced addresses (silenced); addresses silenced (offenders).',
    labelNames: ['reason'],
    registers: [registry],
    async collect() {
      // an external SIP server, or one that is being replaced, has no figures
      for (const [reason, count] of Object.entries(await parts.shed().catch(() => ({}))))
        this.set({ reason }, count as number);
    },
  });
  labelled('trunkline_invites_rejected_total', 'INVITEs that became no call.', 'cause', () => rejected.counts);
  gauge('trunkline_media_sessions', 'Media sessions.', () => media.load().sessions);
  labelled('trunkline_media_thread_lag_ms', 'Event-loop lag of each media thread.', 'thread', () =>
    media.load().threads.map((thread, index) => [String(index), thread.eventLoopLagMs] as const),
  );
  labelled('trunkline_rtp_ports', 'RTP port pairs by state.', 'state', () => Object.entries(media.load().ports));
  gauge('trunkline_media_faults_total', 'Exceptions that ended a session.', () => media.load().faults);
  gauge(
    'trunkline_media_threads_replaced_total',
    'Media threads that died and were replaced.',
    () => media.load().threadsReplaced,
  );
  gauge(
    'trunkline_rtp_foreign_packets_total',
    'Packets from a foreign source, dropped.',
    () => media.load().foreignPackets,
  );
  gauge('trunkline_rtp_malformed_packets_total', 'Malformed packets, dropped.', () => media.load().malformedPackets);
  return registry;
}
