/** The `Replaces` field of an INVITE (RFC 3891): the dialog of ours whose place the caller wants. */
import { parameters } from '../drachtio/header.js';

export interface Replaces {
  callId: string;
  /** As the receiver sees them: his own tag and that of the other end. */
  localTag: string;
  remoteTag: string;
  /** Only a dialog that still rings is to be replaced. */
  earlyOnly: boolean;
}

/** null: there is none. Two of them, or one without both tags, are `malformed`; so is one beside a `Join` (section 3). */
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
