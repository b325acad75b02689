/**
 * Linux shares the cores between sessions first (autogroups, sched(7)), and nice counts only within one: without this, the media threads'
 * nice −10 has no effect on programs of other sessions. In a cgroup with a CPU controller, as of a service or a container, its weight counts instead.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const groupNice = -10;

/**
 * Raises the priority of this process's session, if it is the session's first process, so that no shell or program beside it is raised too. True when it
 * was raised; false when there are no autogroups, the session belongs to another process, or CAP_SYS_NICE is missing. `proc`: for tests.
 */
export function raiseSchedulingGroup(proc = '/proc', pid = process.pid): boolean {
  try {
    if (readFileSync(`${proc}/sys/kernel/sched_autogroup_enabled`, 'utf8').trim() !== '1') return false;
    const stat = readFileSync(`${proc}/self/stat`, 'utf8');
    // proc(5): after the name in parentheses come state, parent, process group and session.
    const session = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[3]);
    if (session !== pid) return false;
    writeFileSync(`${proc}/self/autogroup`, String(groupNice));
    return true;
  } catch {
    return false;
  }
}
