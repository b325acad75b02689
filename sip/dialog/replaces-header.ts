/** The `Replaces` header of an INVITE (RFC 3891): the dialog of ours that the caller wants to replace. */
import { parameters } from '../drachtio/header.js';

export interface Replaces {
  callId: string;
  /** The tags as the receiver of the INVITE sees them: its own, and that of the other end. */
  localTag: string;
  remoteTag: string;
  /** Only an early dialog may be replaced. */
  earlyOnly: boolean;
}

/** null without the header. `malformed`: more than one, one without both tags, or one together with `Join` (section 3). */
export function replacesOf(headers: ReadonlyMap<string, readonly string[]>): Replaces | 'malformed' | null {
  const lines = headers.get('replaces');
  if (lines === undefined || lines.length === 0) return null;
  const [line = ''] = lines;
  if (lines.length > 1 || line.includes(',') || headers.has('join')) return 'malformed';
  const semicolon = line.indexOf(';');
  const callId = line.slice(0, Math.max(0, semicolon)).trim();
  const given = semicolon < 0 ? {} : parameters(line.slice(semicolon));
  const localTag = given['to-tag'] ?? '';
  const remoteTag = given['from-tag'] ?? '';
  if (callId === '' || localTag === '' || remoteTag === '') return 'malformed';
  return { callId, localTag, remoteTag, earlyOnly: 'early-only' in given };
}
