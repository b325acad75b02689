import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { raiseSchedulingGroup } from '../../src/cli/scheduling-group.js';

const pid = 4711;
let proc: string;

function procFiles({ enabled = '1\n', session = pid, name = 'node' } = {}): void {
  mkdirSync(path.join(proc, 'sys/kernel'), { recursive: true });
  mkdirSync(path.join(proc, 'self'));
  writeFileSync(path.join(proc, 'sys/kernel/sched_autogroup_enabled'), enabled);
  writeFileSync(path.join(proc, 'self/stat'), `${pid} (${name}) S 1 ${pid} ${session} 0 -1 4194560 1 0\n`);
  writeFileSync(path.join(proc, 'self/autogroup'), '/autogroup-7 nice 0\n');
}

const group = () => readFileSync(path.join(proc, 'self/autogroup'), 'utf8');

describe('the scheduling group of a session', () => {
  beforeEach(() => {
    proc = mkdtempSync(path.join(tmpdir(), 'trunkline-proc-'));
  });
  afterEach(() => rmSync(proc, { recursive: true }));

  it('is raised by the first process of the session', () => {
    procFiles({ name: 'a (b) c' });
    expect(raiseSchedulingGroup(proc, pid)).toBe(true);
    expect(group()).toBe('-10');
  });

  it.each([
    ['the session belongs to a shell', { session: 99 }],
    ['autogroups are off', { enabled: '0\n' }],
  ])('stays when %s', (_why, files) => {
    procFiles(files);
    expect(raiseSchedulingGroup(proc, pid)).toBe(false);
    expect(group()).toBe('/autogroup-7 nice 0\n');
  });

  it('stays where there is no such thing', () => {
    expect(raiseSchedulingGroup(path.join(proc, 'none'), pid)).toBe(false);
  });
});
