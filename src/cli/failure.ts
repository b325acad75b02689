/** A command that failed: its lines go to standard error (with `--json` it is one document on standard output), and the exit code is 1. */
export class CliFailure extends Error {
  readonly lines: readonly string[];
  /** Of the API's catalogue, or one of the command line's own. */
  code = 'COMMAND_FAILED';
  /** Of the API's answer. */
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
