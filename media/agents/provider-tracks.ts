/** How the stream protocols of carriers call the two tracks: as they see the call. */
import type { Track, Tracks } from './agent.js';

export const providerTrack: Record<Track, string> = { caller: 'inbound', agent: 'outbound' };

export function providerTracks(tracks: Tracks = 'caller'): string[] {
  return tracks === 'both' ? [providerTrack.caller, providerTrack.agent] : [providerTrack[tracks]];
}
