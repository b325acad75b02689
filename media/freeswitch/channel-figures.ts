/** The figures of a phone's channel in FreeSWITCH, in place of those of the leg between FreeSWITCH and our engine. */
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import { withDeadline } from '../../net/deadline.js';
import type { MediaStats, StreamStats } from '../engine.js';
import { unknownStats } from '../thread/session/session-stats.js';

/**
 * FreeSWITCH counts packets and bytes. It has no jitter after RFC 3550 and no loss that could be relied on (its count of skipped packets is
 * not 0 on a loopback without loss), so these stay null: a record says only what was measured.
 */
export async function withChannelFigures(
  stats: MediaStats | null,
  endpoint: FsmrfEndpoint | null,
  limitMs: number,
): Promise<MediaStats> {
  const known = stats ?? unknownStats();
  const variables =
    endpoint === null
      ? {}
      : await withDeadline(limitMs, 'the figures of a channel', null, () => endpoint.getChannelVariables(true)).catch(
          () => ({}) as Record<string, string | number | undefined>,
        );
  const figure = (name: string) => Number(variables[`variable_rtp_audio_${name}`] ?? 0) || 0;
  const stream = (way: 'in' | 'out'): StreamStats => ({
    ...unknownStats().sent,
    packets: figure(`${way}_packet_count`),
    bytes: figure(`${way}_media_bytes`),
  });
  const codec = variables.variable_rtp_use_codec_name ?? variables.variable_read_codec;
  const ptimeMs = Number(variables.variable_rtp_use_codec_ptime ?? 0);
  return {
    codec: codec === undefined ? known.codec : String(codec).toUpperCase(),
    ptimeMs: ptimeMs > 0 ? ptimeMs : known.ptimeMs,
    received: { ...unknownStats().received, ...stream('in') },
    sent: stream('out'),
    rttMs: null,
    agent: known.agent,
  };
}
