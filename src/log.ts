import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * The process's log: JSON lines on standard error, fixed text, values in fields. Secrets are cut by key wherever they stand;
 * digits and transcripts are never logged at all.
 */
export function createLog(level: string): Logger {
  return pino(
    {
      level,
      base: undefined,
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
