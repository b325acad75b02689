import type { CallSummary } from '../../store/calls/call-records.js';
import type { RecordingLinks } from '../../store/calls/recording-links.js';

const hourSec = 3_600;

export interface RecordingUrlOptions {
  links: RecordingLinks;
  /** Where others reach this server, without a slash at the end. */
  publicUrl: () => string;
  now: () => number;
}

/** `recording_url`s as the API shows them: made anew at every read, good for one to two hours, the same within an hour so that they cache. */
export class RecordingUrls {
  constructor(private readonly options: RecordingUrlOptions) {}

  of({ id, recordingUrl }: CallSummary): string | null {
    if (recordingUrl === null) return null;
    const { links, publicUrl, now } = this.options;
    const expires = (Math.floor(now() / 1000 / hourSec) + 2) * hourSec;
    return `${publicUrl()}/v1/calls/${id}/recording?expires=${expires}&signature=${links.sign(id, expires)}`;
  }
}
