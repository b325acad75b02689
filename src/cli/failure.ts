/** A failed command: its lines are printed to standard error (with `--json`, one document to standard output), and the exit code is 1. */
export class CliFailure extends Error {
  readonly lines: readonly string[];
  /** An error code of the API or of the command line. */
  code = 'COMMAND_FAILED';
  /** The `details` of the API's error response. */
  details: unknown;

  constructor(...lines: string[]) {
    super(lines.join('\n'));
    this.name = 'CliFailure';
    this.lines = lines;
  }

  as(code: string, details?: unknown): this {
    this.code = code;
    this.details = details;
    return this;
  }
}
