/**
 * A share of a core for a server under test (control groups, needs root), so that the server reaches its limit while the load generator and the
 * agent have the rest of the machine. The kernel holds back all threads of the process together once they have used their part of a period.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** As short as two cores can share without odd rests: a process that used its part early waits for less than a packet's time. */
const periodUs = 20_000;
const v1 = '/sys/fs/cgroup/cpu';
const v2 = '/sys/fs/cgroup';

/** Puts a process into a group of its own. Returns what takes it out and removes the group; throws where control groups are not allowed. */
export function limitTo(percentOfCore: number, pid: number): () => void {
  const quotaUs = Math.round((periodUs * percentOfCore) / 100);
  const old = existsSync(path.join(v1, 'tasks'));
  const parent = old ? path.join(v1, groupOf(process.pid, old)) : v2;
  const group = path.join(parent, `trunkline-bench-${pid}`);
  try {
    mkdirSync(group, { recursive: true });
    if (old) {
      writeFileSync(path.join(group, 'cpu.cfs_period_us'), String(periodUs));
      writeFileSync(path.join(group, 'cpu.cfs_quota_us'), String(quotaUs));
    } else {
      writeFileSync(path.join(parent, 'cgroup.subtree_control'), '+cpu');
      writeFileSync(path.join(group, 'cpu.max'), `${quotaUs} ${periodUs}`);
    }
    const before = groupOf(pid, old);
    writeFileSync(path.join(group, 'cgroup.procs'), String(pid));
    const free = () => {
      process.off('exit', free);
      if (existsSync(`/proc/${pid}`)) writeFileSync(path.join(old ? v1 : v2, before, 'cgroup.procs'), String(pid));
      rmdirSync(group);
    };
    process.once('exit', free);
    return free;
  } catch (error) {
    throw new Error(`--quota needs root and control groups that can be written: ${(error as Error).message}`);
  }
}

/** Where `/proc` says that a process is, below the controller's folder. */
function groupOf(pid: number, old: boolean): string {
  for (const line of readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n')) {
    const [, controllers = '', where = ''] = line.split(':');
    if (old ? controllers.split(',').includes('cpu') : controllers === '' && where !== '') return where;
  }
  return '/';
}
