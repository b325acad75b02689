import { defineConfig } from 'vitest/config';

/** What loads the machine, or measures it: one file after the other, when the rest is over. */
const alone = [
  ...[
    'agents',
    'apology',
    'floods',
    'long',
    'media',
    'media-trust',
    'ports',
    'process',
    'races',
    'scans',
    'strangers',
  ].map((name) => `test/faults/${name}.test.ts`),
  ...['inbound-call', 'outbound-call', 'sip-server-sipp'].map((name) => `test/scenarios/${name}.test.ts`),
  'test/calls/dialogue.test.ts',
  'test/calls/media-engine.test.ts',
  'test/integration/sip-server-memory.test.ts',
];

/** Rules, codecs, state machines and the store: no sockets, fake clocks. */
const unit = ['test/unit/**/*.test.ts'];

/** More than two cores: a test of a call mostly waits. `port-ranges.ts` has ports for four. */
const maxWorkers = 3;

export default defineConfig({
  test: {
    globalSetup: ['test/support/build.ts'],
    projects: [
      {
        extends: true,
        test: {
          ...{ name: 'unit', include: unit, maxWorkers, sequence: { groupOrder: 0 } },
          setupFiles: ['test/support/no-sockets.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...{ name: 'together', include: ['test/**/*.test.ts'], exclude: [...alone, ...unit] },
          ...{ maxWorkers, sequence: { groupOrder: 0 } },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // a condition with a limit, on a machine that does other things too
    expect: { poll: { timeout: 10_000 } },
  },
});
