/** How the stream protocols of carriers call the two tracks: as they see the call. */
import type { AudioTrack, AudioTracks } from './agent.js';

export const providerTrack: Record<AudioTrack, string> = { caller: 'inbound', agent: 'outbound' };

export function providerTracks(tracks: AudioTracks = 'caller'): string[] {
  return tracks === 'both' ? [providerTrack.caller, providerTrack.agent] : [providerTrack[tracks]];
}
