/** The `trunkline` command. */
import { runCli } from './program.js';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0); // the reader (`| head`) had enough
  throw error;
});

// The SIP library asks for a variable at every header of every message: of a plain object that costs a twelfth. The process is ours here.
process.env = { ...process.env };

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  out: (line) => process.stdout.write(`${line}\n`),
  err: (line) => process.stderr.write(`${line}\n`),
});
