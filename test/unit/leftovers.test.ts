import { expect, it } from 'vitest';
import { expectNothingLeft, type Leavings } from '../support/leftovers.js';

interface Left {
  calls: number;
  rows: number;
  sessions: number;
  ports: number;
  quarantined: number;
  legs: number;
  dialogs: number;
  transactions: number;
  timers: number;
  tcpConnections: number;
}

function app(changes: Partial<Left>): Leavings {
  const left = {
    calls: 0,
    rows: 0,
    sessions: 0,
    ports: 0,
    quarantined: 0,
    legs: 0,
    dialogs: 0,
    transactions: 0,
    timers: 0,
    tcpConnections: 0,
    ...changes,
  };
  return {
    sip: { counters: () => ({ activeLegs: left.legs }), serverStats: async () => ({ live: left }) },
    media: { load: () => ({ sessions: left.sessions, ports: { used: left.ports, quarantined: left.quarantined } }) },
    live: { count: left.calls },
    store: { records: { stats: async ({ mode }) => ({ in_progress: mode === 'live' ? left.rows : 0 }) } },
    first: { organizationId: 'x' },
  };
}

it('passes when nothing is left', async () => {
  await expectNothingLeft(app({}), { limitMs: 0, transactionsLimitMs: 0 });
  await expectNothingLeft(app({ transactions: 2 }), { limitMs: 0 });
});

it.each([
  [{ calls: 1 }, '1 calls in the live table'],
  [{ rows: 2 }, '2 calls in_progress in the database'],
  [{ sessions: 1 }, '1 media sessions'],
  [{ ports: 1 }, '1 RTP ports in use'],
  [{ quarantined: 1 }, '1 RTP ports in quarantine'],
  [{ legs: 1 }, '1 SIP legs'],
  [{ dialogs: 1 }, '1 SIP dialogs'],
  [{ transactions: 1, timers: 2 }, '1 SIP transactions, 2 SIP timers'],
  [{ tcpConnections: 1 }, '1 TCP connections'],
])('names %j', async (left, text) => {
  await expect(expectNothingLeft(app(left), { limitMs: 0, transactionsLimitMs: 0 })).rejects.toThrow(
    `Left over after 0 ms: ${text}`,
  );
});

it('waits until it is gone', async () => {
  const leaving = app({});
  let looks = 0;
  leaving.media.load = () => ({ sessions: looks++ < 3 ? 1 : 0, ports: { used: 0, quarantined: 0 } });
  await expectNothingLeft(leaving, { limitMs: 5000 });
  expect(looks).toBe(4);
});
