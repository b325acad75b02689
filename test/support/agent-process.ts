/** An agent in a process of its own, which a test can stop or kill: `test/fixtures/flooding-agent.mjs`. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../fixtures/flooding-agent.mjs', import.meta.url));

/** Resolves when it listens. `port` 0: any. */
export async function startAgentProcess(port = 0): Promise<{ child: ChildProcess; port: number }> {
  const child = spawn(process.execPath, [program, String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = (await once(child.stdout!, 'data')) as [Buffer];
  return { child, port: Number(String(said).trim()) };
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  child.stdout?.destroy();
}
