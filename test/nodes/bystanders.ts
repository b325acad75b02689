/** Phones with sound at single nodes, beside whatever happens to other nodes and to the servers (I6). */
import { vi } from 'vitest';
import type { TestApp } from '../support/app.js';
import { Bystander } from '../support/invariants.js';
import { toneCaller } from '../support/tone-caller.js';
import type { Node } from './installation.js';

type Phone = Awaited<ReturnType<typeof toneCaller>>;

/**
 * Longer than in the tests of one process: beside a node that starts again the processes of this test share the cores with four others, and the clock of
 * the test says how late its own process was only.
 */
const gapLimitMs = 150;

export class Bystanders {
  private readonly phones = new Map<Node, Phone>();

  constructor(private readonly number: string) {}

  /**
   * Carries out the fault while one phone talks at each of these nodes; returns what they heard of it, each in one line, and the longest gap. Phones stay
   * connected from fault to fault; those of other nodes are left alone.
   */
  async during(what: string, nodes: readonly Node[], fault: () => Promise<unknown>): Promise<string[]> {
    const watched: [Node, Phone, Bystander][] = [];
    for (const node of nodes) {
      const phone = this.phones.get(node) ?? (await this.call(node));
      watched.push([node, phone, new Bystander(phone.phone.rtp.heard, gapLimitMs)]);
    }
    const before = watched.map(([, { phone }]) => phone.rtp.heard.length);
    await fault();
    const broken = watched.flatMap(([{ name }, , bystander]) =>
      bystander.problems().map((problem) => `${problem}, at ${name} while ${what}`),
    );
    const gaps = watched.map(
      ([{ name }, { phone }], i) => `${name} ${longestGapMs(phone.rtp.heard.slice(before[i])).toFixed(0)} ms`,
    );
    console.log(`longest gap between packets while ${what}: ${gaps.join(', ')}`);
    return broken;
  }

  /** The node hangs up its phones, or is dead. */
  async forget(node: Node): Promise<void> {
    const phone = this.phones.get(node);
    this.phones.delete(node);
    phone?.leave().catch(() => {}); // it may be that nobody answers
    await phone?.phone.close();
  }

  /** Hangs all up. */
  async close(): Promise<void> {
    for (const phone of this.phones.values()) await phone.close();
    this.phones.clear();
  }

  private async call(node: Node): Promise<Phone> {
    // a node whose database is slow for a moment refuses: without a proxy in front a carrier calls again
    const phone = await vi.waitFor(() => toneCaller(at(node), this.number, 500), { timeout: 40_000, interval: 500 });
    this.phones.set(node, phone);
    await phone.untilHearsTone(500, `the echo at ${node.name}`, 0.5);
    return phone;
  }
}

/** What `toneCaller` needs of a node. */
export function at({ sipPort }: Node): TestApp {
  return { sip: { addresses: [{ port: sipPort }] } } as unknown as TestApp;
}

function longestGapMs(heard: readonly { atMs: number }[]): number {
  return Math.max(0, ...heard.slice(1).map(({ atMs }, i) => atMs - (heard[i]?.atMs ?? atMs)));
}
