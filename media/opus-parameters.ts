/** The `a=fmtp` parameters of Opus (RFC 7587 section 6.1): what their writer wants to receive. */

export interface OpusParameters {
  maxPlaybackRateHz: number;
  /** Bits per second. */
  maxAverageBitrate: number;
  stereo: boolean;
  cbr: boolean;
  inbandFec: boolean;
  dtx: boolean;
}

/** Values of absent parameters. */
export const opusDefaults: OpusParameters = {
  maxPlaybackRateHz: 48_000,
  maxAverageBitrate: 510_000,
  stereo: false,
  cbr: false,
  inbandFec: false,
  dtx: false,
};

/** Our parameters: mono up to 12 kHz audio bandwidth, with in-band FEC. No listener of ours uses a wider band. */
export const ourOpus =
  'maxplaybackrate=24000;sprop-maxcapturerate=24000;stereo=0;sprop-stereo=0;useinbandfec=1;usedtx=0';

const leastBitrate = 6000;
const leastRateHz = 8000;

/** Unknown parameters and invalid values are ignored. */
export function readOpusParameters(text: string): OpusParameters {
  const found = { ...opusDefaults };
  for (const each of text.split(';')) {
    const [name = '', value = ''] = each.split('=').map((part) => part.trim().toLowerCase());
    const number = /^\d{1,7}$/.test(value) ? Number(value) : null;
    if (number === null) continue;
    if (name === 'maxplaybackrate')
      found.maxPlaybackRateHz = within(number, leastRateHz, opusDefaults.maxPlaybackRateHz);
    else if (name === 'maxaveragebitrate')
      found.maxAverageBitrate = within(number, leastBitrate, opusDefaults.maxAverageBitrate);
    else if (name === 'stereo') found.stereo = number === 1;
    else if (name === 'cbr') found.cbr = number === 1;
    else if (name === 'useinbandfec') found.inbandFec = number === 1;
    else if (name === 'usedtx') found.dtx = number === 1;
  }
  return found;
}

function within(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
