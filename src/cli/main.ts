/** The `trunkline` command. */
import { runCli } from './program.js';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0); // the reader (`| head`) closed the pipe
  throw error;
});

// The SIP library reads a variable for every header of every message; a plain object takes a twelfth of the time of the real environment.
process.env = { ...process.env };

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  out: (line) => process.stdout.write(`${line}\n`),
  err: (line) => process.stderr.write(`${line}\n`),
});
