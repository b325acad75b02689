/** The figures of a phone's channel in FreeSWITCH, in place of those of the leg between FreeSWITCH and our engine. */
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import { withDeadline } from '../../net/deadline.js';
import type { MediaStats } from '../engine.js';
import { unknownStats } from '../thread/session/session-stats.js';

/** What a channel sent and received. */
export interface ChannelFigures {
  received: { packets: number; bytes: number };
  sent: { packets: number; bytes: number };
  codec: string | null;
  ptimeMs: number | null;
}

/** null when the channel does not tell in time. */
export async function readFigures(endpoint: FsmrfEndpoint, limitMs: number): Promise<ChannelFigures | null> {
  try {
    const variables = await withDeadline(limitMs, 'the figures of a channel', null, () =>
      endpoint.getChannelVariables(true),
    );
    const figure = (name: string) => Number(variables[`variable_rtp_audio_${name}`] ?? 0) || 0;
    const way = (name: 'in' | 'out') => ({
      packets: figure(`${name}_packet_count`),
      bytes: figure(`${name}_media_bytes`),
    });
    const codec = variables.variable_rtp_use_codec_name ?? variables.variable_read_codec;
    const ptimeMs = Number(variables.variable_rtp_use_codec_ptime ?? 0);
    return {
      ...{ received: way('in'), sent: way('out') },
      codec: codec === undefined ? null : String(codec).toUpperCase(),
      ptimeMs: ptimeMs > 0 ? ptimeMs : null,
    };
  } catch {
    return null;
  }
}

/** `earlier`: of channels in servers that the call has left. */
export function addFigures(earlier: ChannelFigures | null, now: ChannelFigures | null): ChannelFigures | null {
  if (earlier === null || now === null) return now ?? earlier;
  const sum = (way: 'received' | 'sent') => ({
    packets: earlier[way].packets + now[way].packets,
    bytes: earlier[way].bytes + now[way].bytes,
  });
  return { ...now, received: sum('received'), sent: sum('sent') };
}

/**
 * FreeSWITCH counts packets and bytes. It has no jitter after RFC 3550 and no loss that could be relied on (its count of skipped packets is
 * not 0 on a loopback without loss), so these stay null: a record says only what was measured.
 */
export function asStats(figures: ChannelFigures | null, inner: MediaStats): MediaStats {
  const nothing = unknownStats();
  return {
    codec: figures?.codec ?? inner.codec,
    ptimeMs: figures?.ptimeMs ?? inner.ptimeMs,
    received: { ...nothing.received, ...figures?.received },
    sent: { ...nothing.sent, ...figures?.sent },
    rttMs: null,
    // Between FreeSWITCH and us the network is not the caller's; what FreeSWITCH adds is not measured.
    delay: { ...inner.delay, network: null },
    recentDelay: { ...inner.recentDelay, network: null },
    late: inner.late,
    echo: inner.echo,
    agent: inner.agent,
  };
}
