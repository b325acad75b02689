/** What is in the heaps of a process: heap snapshots of all its threads, as numbers of objects of each class. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const lookEveryMs = 200;
const limitMs = 300_000;

/** By thread and class: `main Call`. */
export type HeapCounts = Map<string, number>;

/** Of a gateway that was started with `heap-preload.js` and this folder. */
export async function heapCounts(pid: number, folder: string): Promise<HeapCounts> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  process.kill(pid, 'SIGUSR2');
  const untilMs = performance.now() + limitMs;
  while (!existsSync(path.join(folder, 'written'))) {
    if (performance.now() > untilMs) throw new Error(`The gateway wrote no heap snapshots within ${limitMs} ms.`);
    await sleep(lookEveryMs);
  }
  const counts: HeapCounts = new Map();
  for (const file of readdirSync(folder)) {
    if (!file.endsWith('.heapsnapshot')) continue;
    const thread = file.slice(0, file.indexOf('.'));
    count(readFileSync(path.join(folder, file)), thread, counts);
  }
  return counts;
}

interface Snapshot {
  snapshot: { meta: { node_fields: string[]; node_types: [string[], ...unknown[]] } };
  nodes: number[];
  strings: string[];
}

function count(text: Buffer, thread: string, counts: HeapCounts): void {
  const { snapshot, nodes, strings } = JSON.parse(text.toString('latin1')) as Snapshot;
  const fields = snapshot.meta.node_fields;
  const types = snapshot.meta.node_types[0];
  const [typeAt, nameAt] = [fields.indexOf('type'), fields.indexOf('name')];
  for (let at = 0; at < nodes.length; at += fields.length) {
    const type = types[nodes[at + typeAt]!]!;
    if (type !== 'object' && type !== 'closure' && type !== 'native') continue;
    const name = `${thread} ${type} ${(strings[nodes[at + nameAt]!] ?? '').slice(0, 60)}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
}

/** Of which there are more by at least `least`, the most first. */
export function more(before: HeapCounts, after: HeapCounts, least: number): { name: string; by: number }[] {
  return [...after]
    .map(([name, number]) => ({ name, by: number - (before.get(name) ?? 0) }))
    .filter(({ by }) => by >= least)
    .sort((a, b) => b.by - a.by);
}
