/** Media settings of a second leg, from the first leg and the address. */
import type { MediaSession, PhoneCodec, SrtpPolicy } from '../../../media/engine.js';

/** SDES keys are offered only where the signalling is encrypted (`sips:`, or TLS by name), unless the endpoint asks for them. */
export function srtpTowards(uri: string): SrtpPolicy {
  return /^sips:/i.test(uri) || /;transport=tls(?:[;?]|$)/i.test(uri) ? 'allow' : 'off';
}

const narrowband: readonly PhoneCodec[] = ['PCMU', 'PCMA'];

/**
 * Codecs to offer to a second leg. That of the first leg comes first, because audio passes unchanged when both use it. Next to G.711 a
 * wideband codec has no use and is not offered.
 */
export async function codecsLike(session: MediaSession, codecs: readonly PhoneCodec[]): Promise<PhoneCodec[]> {
  const stats = await session.stats();
  const codec = codecs.find((each) => each === stats.codec);
  if (codec === undefined) return [...codecs];
  const others = narrowband.includes(codec) ? codecs.filter((other) => narrowband.includes(other)) : codecs;
  return [codec, ...others.filter((other) => other !== codec)];
}
