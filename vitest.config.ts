import { defineConfig } from 'vitest/config';
import { postgresFolder } from './test/support/postgres-folder.js';

/** Files that load the machine, or that judge 40 ms: one after the other, when the rest is over. */
const alone = [
  'test/faults/{agents,floods,long,media,ports,process,scans,strangers}.test.ts',
  'test/calls/dialogue.test.ts',
  'test/calls/media-codecs.test.ts',
  'test/calls/media-engine.test.ts',
  'test/integration/sip-server-memory.test.ts',
];

/** Over real servers that run beside; `npm run test:external`. */
const external = ['test/external/**/*.test.ts'];

/** Several nodes as processes behind Kamailio, for minutes; `npm run test:nodes`. */
const nodes = ['test/nodes/**/*.test.ts'];

/** Rules, codecs, state machines and the store: no sockets, fake clocks. */
const unit = ['test/unit/**/*.test.ts'];

/** Suites of the store that run over both databases, and those of PostgreSQL alone. */
const storeOverPostgres = [
  'test/unit/store-{calls,tenants,settings-rows,instances,vault,retention}.test.ts',
  'test/integration/postgres-*.test.ts',
];
/** Suites of the API, also over PostgreSQL: `npm run test:postgres`. */
const apiOverPostgres = [
  'test/unit/api-{access,bad-input,calls,details,last-second,limits,organizations,outbound,reading,recordings,routing}.test.ts',
];

const overPostgres = process.env.TEST_API_OVER_POSTGRES
  ? [...storeOverPostgres, ...apiOverPostgres]
  : storeOverPostgres;

/** Chromium needs more of the machine than calls beside it can spare. */
const inBrowser = ['test/calls/dashboard*.test.ts'];

/** Files that mostly wait for calls, and judge neither the pace nor the delay of audio. */
const waiting = [
  'test/architecture.test.ts',
  'test/contract/provider-table.test.ts',
  'test/faults/{agent-stopped,dialogs,migration,offers,races,tcp}.test.ts',
  'test/contract/{agent-faults,agent-conversation,agent-protocol,provider-clients,provider-types}.test.ts',
  'test/integration/**/*.test.ts',
  'test/calls/{agent-failover,agent-hangups,agent-session-limit,agent-stopped,agent-transcripts,agent-variables}.test.ts',
  'test/calls/{bad-carriers,balance-app,bridged-call,cli-call,cli-process,doctor-call,external-sip-servers,kamailio,balancer}.test.ts',
  'test/calls/{loopback-trunk,nat,no-ports-left,outbound-call,outbound-carrier,party-events,readiness,readme}.test.ts',
  'test/calls/{recording-app,replaces,secure-agent,simulator-app,sip-*,trace-peers,tracing-otlp,transfer,twilio-rest,webhook-*}.test.ts',
];

/** Files that count all timers and sockets of their process, or replace a module before it is loaded. */
const ownProcess = [
  'test/contract/agent-faults.test.ts',
  'test/integration/{agents-connect,agents-rebind,agents-renewal,agents-socket,example-agents,sip-last-words}.test.ts',
];

/**
 * On two cores, four files that wait leave a core free now and then; two that measure audio need one each. CI may run on a machine that others
 * disturb, so fewer run there. `port-ranges.ts` has ports for eight processes.
 */
const isCi = Boolean(process.env.CI);
const measuringWorkers = isCi ? 1 : 2;
const waitingWorkers = isCi ? 3 : 4;

/**
 * Whole calls run in real time. A machine that stands still for half a second spoils one, whatever the product does, and one that does so every
 * few seconds spoils the second too; a defect spoils all four. Each further try waits for a calm second (`tries.ts`). The report ends with
 * the tests that needed one.
 */
const inRealTime = { retry: 3 };
const whileOthersWait = {
  ...inRealTime,
  ...{ maxWorkers: waitingWorkers, maxConcurrency: 10, sequence: { groupOrder: 2 } },
};
/** `TEST_TWICE=1 npm test`: no test may depend on its first try. */
const everyTestTwice = process.env.TEST_TWICE ? ['test/support/every-test-twice.ts'] : [];
/** Loading the program takes two seconds of processor time: once for a worker, not for each file. */
const loadedOnce = { isolate: false };

export default defineConfig({
  test: {
    globalSetup: ['test/support/build.ts'],
    projects: [
      {
        extends: true,
        test: {
          ...{ name: 'unit', include: unit, ...loadedOnce, maxWorkers: 2, sequence: { groupOrder: 0 } },
          setupFiles: ['test/support/no-sockets.ts', 'test/support/wait-limit.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...{ ...inRealTime, name: 'browser', include: inBrowser, maxWorkers: 2, sequence: { groupOrder: 0 } },
        },
      },
      {
        extends: true,
        test: {
          ...{
            name: 'together',
            include: ['test/**/*.test.ts'],
            exclude: [...alone, ...unit, ...inBrowser, ...waiting, ...external, ...nodes],
          },
          ...{ ...inRealTime, ...loadedOnce, maxWorkers: measuringWorkers, sequence: { groupOrder: 1 } },
        },
      },
      {
        extends: true,
        test: {
          ...{
            name: 'waiting',
            include: waiting,
            exclude: [...alone, ...ownProcess, ...external, 'test/integration/postgres-*.test.ts'],
          },
          ...{ ...whileOthersWait, ...loadedOnce },
        },
      },
      { extends: true, test: { name: 'own process', include: ownProcess, ...whileOthersWait } },
      {
        extends: true,
        test: { ...inRealTime, name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 3 } },
      },
      {
        extends: true,
        test: {
          // the same suites over PostgreSQL, if the machine has it
          ...{ name: 'postgres', include: postgresFolder() === undefined ? [] : overPostgres },
          ...{ ...inRealTime, maxWorkers: 2, sequence: { groupOrder: 0 } },
          globalSetup: ['test/support/postgres-setup.ts'],
          env: { TEST_STORE_OVER: 'postgres' }, // the server's address reaches every project
        },
      },
      {
        extends: true,
        test: {
          name: 'nodes',
          include: process.env.TEST_NODES ? nodes : [],
          maxWorkers: 1,
          sequence: { groupOrder: 5 },
        },
      },
      {
        extends: true,
        test: { ...inRealTime, name: 'external', include: external, maxWorkers: 1, sequence: { groupOrder: 4 } },
      },
    ],
    setupFiles: ['test/support/wait-limit.ts', 'test/support/tries.ts', ...everyTestTwice],
    reporters: ['default', './test/support/second-tries.ts'],
    pool: 'forks',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // a condition with a limit, on a machine that does other things too
    expect: { poll: { timeout: 10_000 } },
  },
});
