/** Names of the two tracks in the carriers' stream protocols. */
import type { AudioTrack, AudioTracks } from './agent.js';

export const providerTrack: Record<AudioTrack, string> = { caller: 'inbound', agent: 'outbound' };

export function providerTracks(tracks: AudioTracks = 'caller'): string[] {
  return tracks === 'both' ? [providerTrack.caller, providerTrack.agent] : [providerTrack[tracks]];
}
