import type { Reporter, TestModule } from 'vitest/node';

/**
 * Ends the report with the tests that failed first and passed when tried again. On a quiet machine there are none: a test that stands here
 * often is wrong, or has found a defect.
 */
export default class SecondTries implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const lines = modules.flatMap((module) =>
      [...module.children.allTests()]
        .filter((test) => test.diagnostic()?.flaky)
        .map((test) => {
          const [reason] = (test.result().errors?.[0]?.message ?? '').split('\n');
          return `  ${module.relativeModuleId} > ${test.fullName}: ${reason}`;
        }),
    );
    if (lines.length > 0) console.log(`\nPassed only when tried again:\n${lines.join('\n')}`);
  }
}
