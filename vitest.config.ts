import { defineConfig } from 'vitest/config';

/** What loads the machine, or measures it: one file after the other, when the rest is over. */
const alone = [
  'test/faults/**/*.test.ts',
  'test/scenarios/**/*.test.ts',
  'test/calls/dialogue.test.ts',
  'test/calls/media-engine.test.ts',
  'test/unit/sip-server-memory.test.ts',
];

export default defineConfig({
  test: {
    globalSetup: ['test/support/build.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'two at a time',
          include: ['test/**/*.test.ts'],
          exclude: alone,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
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
