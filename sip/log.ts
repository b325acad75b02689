/** The logger that the SIP side needs; pino's fits. Fixed text, values in fields. */
export interface SipLog {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  error(fields: object, text: string): void;
}

/** Writes at most one line per interval; the next line counts the lines left out (`suppressed`). */
export function rateLimited(write: (fields: object, text: string) => void, intervalMs: number): typeof write {
  let nextMs = Number.NEGATIVE_INFINITY;
  let suppressed = 0;
  return (fields, text) => {
    const now = performance.now();
    if (now < nextMs) {
      suppressed++;
      return;
    }
    nextMs = now + intervalMs;
    write(suppressed > 0 ? { ...fields, suppressed } : fields, text);
    suppressed = 0;
  };
}
