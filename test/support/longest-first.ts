import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take half a minute and more: begun last, one of them would run alone while the other workers have nothing to do. */
const longest = [
  ...['calls/dashboard', 'scenarios/kill-and-restart', 'integration/webhook-events', 'scenarios/inbound-call'],
  ...['contract/agent-faults', 'calls/agent-transcripts', 'calls/agent-providers', 'calls/media-session'],
  ...['faults/races', 'calls/outbound-call', 'faults/media-trust', 'calls/simulator-peer'],
];

/** The usual order, with the longest files of each project first. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const projects = new Map<string, { long: TestSpecification[]; short: TestSpecification[] }>();
    for (const file of sorted) {
      const of = projects.get(file.project.name) ?? { long: [], short: [] };
      projects.set(file.project.name, of);
      const isLong = longest.some((name) => file.moduleId.endsWith(`/test/${name}.test.ts`));
      (isLong ? of.long : of.short).push(file);
    }
    return [...projects.values()].flatMap(({ long, short }) => [...long, ...short]);
  }
}
