/** The key in a SIP INFO (`application/dtmf-relay`); null when it carries none. */
export function keyOfInfo(info: { contentType: string; body: string }): string | null {
  if (!info.contentType.startsWith('application/dtmf-relay')) return null;
  return /^[ \t]*signal[ \t]*=[ \t]*([0-9A-D*#])/im.exec(info.body)?.[1] ?? null;
}
