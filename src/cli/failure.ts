/** A command that failed: its lines go to standard error and the exit code is 1. */
export class CliFailure extends Error {
  readonly lines: readonly string[];

  constructor(...lines: string[]) {
    super(lines.join('\n'));
    this.name = 'CliFailure';
    this.lines = lines;
  }
}
