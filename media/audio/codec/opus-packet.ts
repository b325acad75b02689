/** What the first bytes of an Opus packet say of it (RFC 6716), without decoding it. */

/** All that a packet may hold (section 3.4). */
export const longestPacketMs = 120;

/** How long a packet plays (RFC 6716 section 3.1); 0 when it is none. */
export function opusPacketMs(payload: Uint8Array): number {
  const first = payload[0];
  if (first === undefined) return 0;
  const config = first >> 3;
  const frameMs =
    config < 12 ? [10, 20, 40, 60][config & 3]! : config < 16 ? [10, 20][config & 1]! : 2.5 * 2 ** (config & 3);
  const frames = (first & 3) === 0 ? 1 : (first & 3) < 3 ? 2 : (payload[1] ?? 0) & 63;
  const ms = frames * frameMs;
  return ms <= longestPacketMs ? ms : 0;
}

/** Whether a packet carries a coarse copy of the one before it: the flag behind those of voice activity (RFC 6716 section 4.2.3). */
export function holdsCopy(payload: Uint8Array): boolean {
  const [first = 0xff, second = 0] = payload;
  const config = first >> 3;
  // What has no part of SILK, or several frames, is not looked into.
  if (config >= 16 || (first & 3) !== 0) return false;
  const voiceFlags = config >= 12 ? 1 : [1, 1, 2, 3][config & 3]!;
  return (second & (0x80 >> voiceFlags)) !== 0;
}
