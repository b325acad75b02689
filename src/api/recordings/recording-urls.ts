import type { CallSummary } from '../../store/calls/call-records.js';
import type { RecordingLinks } from '../../store/calls/recording-links.js';

const hourSec = 3_600;

export interface RecordingUrlOptions {
  links: RecordingLinks;
  /** The public URL of this server, without a trailing slash. */
  publicUrl: () => string;
  now: () => number;
}

/** Creates the `recording_url`s of API responses: valid for one to two hours, and constant within an hour so that they can be cached. */
export class RecordingUrls {
  constructor(private readonly options: RecordingUrlOptions) {}

  of({ id, recordingUrl }: CallSummary): string | null {
    if (recordingUrl === null) return null;
    const { links, publicUrl, now } = this.options;
    const expires = (Math.floor(now() / 1000 / hourSec) + 2) * hourSec;
    return `${publicUrl()}/v1/calls/${id}/recording?expires=${expires}&signature=${links.sign(id, expires)}`;
  }
}
