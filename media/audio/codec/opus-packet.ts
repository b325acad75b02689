/** Reads facts from the first bytes of an Opus packet (RFC 6716), without decoding it. */

/** The longest duration of a packet (section 3.4). */
export const longestPacketMs = 120;

/** Duration of a packet (RFC 6716 section 3.1); 0 when it is invalid. */
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

/** True when a packet carries in-band FEC data of the one before it: the LBRR flag after the VAD flags (RFC 6716 section 4.2.3). */
export function holdsCopy(payload: Uint8Array): boolean {
  const [first = 0xff, second = 0] = payload;
  const config = first >> 3;
  // Packets without SILK, or with several frames, are not examined.
  if (config >= 16 || (first & 3) !== 0) return false;
  const voiceFlags = config >= 12 ? 1 : [1, 1, 2, 3][config & 3]!;
  return (second & (0x80 >> voiceFlags)) !== 0;
}
