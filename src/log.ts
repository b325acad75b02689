import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * The log of the process: JSON lines on standard error, with fixed text and values in fields. Secrets are redacted by key at any depth; digits
 * and transcripts are never logged. `node`: the name of this process among others, in every line.
 */
export function createLog(level: string, node?: string): Logger {
  return pino(
    {
      level,
      base: node === undefined ? undefined : { node },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: [
          'authorization',
          'password',
          'secret',
          'key',
          'token',
          '*.authorization',
          '*.password',
          '*.secret',
          '*.key',
          '*.token',
        ],
        censor: '[cut]',
      },
    },
    pino.destination({ dest: 2, sync: false }),
  );
}
