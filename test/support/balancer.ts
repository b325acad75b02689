/** The Kamailio of `examples/kamailio/`, in front of some nodes on loopback. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

const example = path.resolve(import.meta.dirname, '../../examples/kamailio/kamailio.cfg');

export interface Balancer {
  port: number;
  close(): Promise<void>;
}

/** `folder`: for its files; `log`: a file for what it says. */
export async function startBalancer(
  port: number,
  nodePorts: readonly number[],
  folder: string,
  log?: string,
): Promise<Balancer> {
  const list = path.join(folder, 'dispatcher.list');
  await writeFile(list, nodePorts.map((nodePort) => `1 sip:127.0.0.1:${nodePort}\n`).join(''));
  const defined = ['-A', `LISTEN=udp:127.0.0.1:${port}`, '-A', `NODES="${list}"`];
  const child: ChildProcess = spawn(
    'kamailio',
    ['-f', example, ...defined, '-DD', '-E', '-m', '32', '-M', '4', '-Y', folder, '-w', folder],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  if (log === undefined) child.stderr?.resume();
  else child.stderr?.pipe(createWriteStream(log));
  const failed = once(child, 'error').then(() => {
    throw new Error('This test needs kamailio: apt-get install kamailio');
  });
  await Promise.race([once(child, 'spawn'), failed]);
  const close = async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM'); // its children go with it
    await once(child, 'exit');
  };
  return { port, close };
}
