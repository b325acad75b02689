import { defineConfig } from 'vitest/config';

/** What loads the machine, or measures it: one file after the other, when the rest is over. */
const alone = [
  'test/faults/**/*.test.ts',
  'test/scenarios/**/*.test.ts',
  'test/calls/dialogue.test.ts',
  'test/calls/media-codecs.test.ts',
  'test/calls/media-engine.test.ts',
  'test/integration/sip-server-memory.test.ts',
];

/** Over real servers that run beside; `npm run test:external`. */
const external = ['test/external/**/*.test.ts'];

/** Rules, codecs, state machines and the store: no sockets, fake clocks. */
const unit = ['test/unit/**/*.test.ts'];

/**
 * A test of a call mostly waits, but the ones that measure audio need a core of their own now and then: with three workers on two cores they
 * failed. CI runs unattended and runs one file at a time. `port-ranges.ts` has ports for four workers.
 */
const maxWorkers = process.env.CI ? 1 : 2;

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
          ...{ name: 'together', include: ['test/**/*.test.ts'], exclude: [...alone, ...unit, ...external] },
          ...{ maxWorkers, sequence: { groupOrder: 0 } },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
      { extends: true, test: { name: 'external', include: external, maxWorkers: 1, sequence: { groupOrder: 2 } } },
    ],
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // a condition with a limit, on a machine that does other things too
    expect: { poll: { timeout: 10_000 } },
  },
});
