import { describe, expect, it } from 'vitest';
import { parseMessage, type SipResponse } from '../../sip/server/message/message.js';
import { InviteClient } from '../../sip/server/transactions/invite-client.js';
import { InviteServer, RINGING_REPEAT_MS } from '../../sip/server/transactions/invite-server.js';
import { NonInviteClient } from '../../sip/server/transactions/non-invite-client.js';
import { NonInviteServer } from '../../sip/server/transactions/non-invite-server.js';
import { DEFAULT_TIMERS, SystemClock } from '../../sip/server/transactions/timers.js';
import { FakeClock } from '../support/fake-sip-clock.js';

const BYTES = Buffer.from('request');

function response(status: number, tag = 'x'): SipResponse {
  return parseMessage(Buffer.from(`SIP/2.0 ${status} R\r\nTo: <sip:a@b>;tag=${tag}\r\n\r\n`)) as SipResponse;
}

/** What a machine did, with when: `500 send`, `0 got 180`. */
function setUp() {
  const clock = new FakeClock();
  const log: string[] = [];
  const note = (what: string) => log.push(`${clock.now()} ${what}`);
  const user = {
    transmit: (bytes: Buffer, again?: boolean) => void note(`${again ? 'again' : 'send'} ${bytes.toString()}`),
    acknowledge: () => Buffer.from('ack'),
    received: (r: SipResponse) => void note(`got ${r.status}`),
    timedOut: () => void note('timeout'),
    transportFailed: () => void note('failed'),
    unacknowledged: () => void note('no ack'),
    unanswered: () => void note('no answer'),
    ended: () => void note('end'),
  };
  return { clock, log, user };
}

const doubling = (from: number, to: number, cap: number) => {
  const times: number[] = [];
  for (let at = from, step = from; at < to; step = Math.min(step * 2, cap), at += step) times.push(at);
  return times;
};

describe('INVITE client (17.1.1, RFC 6026)', () => {
  const start = (reliable: boolean) => {
    const parts = setUp();
    const machine = new InviteClient(parts.clock, DEFAULT_TIMERS, reliable, BYTES, parts.user);
    machine.start();
    return { ...parts, machine };
  };

  it('timer A doubles without a cap, timer B ends it', () => {
    const { clock, log } = start(false);
    clock.advance(40_000);
    expect(log).toEqual([
      '0 send request',
      ...[500, 1500, 3500, 7500, 15500, 31500].map((at) => `${at} again request`),
      '32000 timeout',
      '32000 end',
    ]);
    expect(clock.live).toBe(0);
  });

  it('sends once over a reliable transport', () => {
    const { clock, log } = start(true);
    clock.advance(40_000);
    expect(log).toEqual(['0 send request', '32000 timeout', '32000 end']);
  });

  it('a provisional answer stops repeats and every limit', () => {
    const { clock, log, machine } = start(false);
    machine.receive(response(180));
    clock.advance(3_600_000);
    machine.receive(response(183));
    expect(log).toEqual(['0 send request', '0 got 180', '3600000 got 183']);
    expect(clock.live).toBe(0);
  });

  it('acknowledges a failure and its repeats until timer D', () => {
    const { clock, log, machine } = start(false);
    machine.receive(response(486));
    machine.receive(response(486));
    machine.receive(response(180));
    machine.receive(response(200));
    clock.advance(32_000);
    machine.receive(response(486));
    expect(log).toEqual(['0 send request', '0 send ack', '0 got 486', '0 again ack', '32000 end']);
    expect(clock.live).toBe(0);
  });

  it('timer D is zero over a reliable transport', () => {
    const { log, machine } = start(true);
    machine.receive(response(486));
    expect(log).toEqual(['0 send request', '0 send ack', '0 got 486', '0 end']);
  });

  it('hands every 2xx up until timer M, and no failure after it', () => {
    const { clock, log, machine } = start(false);
    machine.receive(response(200, 'a'));
    clock.advance(1000);
    machine.receive(response(200, 'b'));
    machine.receive(response(486));
    clock.advance(31_000);
    machine.receive(response(200));
    expect(log).toEqual(['0 send request', '0 got 200', '1000 got 200', '32000 end']);
    expect(clock.live).toBe(0);
  });

  it('tells of a transport failure before the answer only', () => {
    const before = start(false);
    before.machine.fail(new Error('x'));
    expect(before.log).toEqual(['0 send request', '0 failed', '0 end']);
    const after = start(false);
    after.machine.receive(response(200));
    after.machine.fail(new Error('x'));
    expect(after.log).toEqual(['0 send request', '0 got 200', '0 end']);
  });
});

describe('non-INVITE client (17.1.2)', () => {
  const start = (reliable: boolean) => {
    const parts = setUp();
    const machine = new NonInviteClient(parts.clock, DEFAULT_TIMERS, reliable, BYTES, parts.user);
    machine.start();
    return { ...parts, machine };
  };

  it('timer E doubles to T2, timer F ends it', () => {
    const { clock, log } = start(false);
    clock.advance(40_000);
    const repeats = doubling(500, 32_000, 4000).map((at) => `${at} again request`);
    expect(log).toEqual(['0 send request', ...repeats, '32000 timeout', '32000 end']);
    expect(clock.live).toBe(0);
  });

  it('repeats every T2 after a provisional answer; timer F goes on', () => {
    const { clock, log, machine } = start(false);
    machine.receive(response(100));
    clock.advance(40_000);
    const repeats = [500, ...Array.from({ length: 7 }, (_, i) => 4500 + 4000 * i)].map((at) => `${at} again request`);
    expect(log).toEqual(['0 send request', '0 got 100', ...repeats, '32000 timeout', '32000 end']);
  });

  it('absorbs repeats of the final answer until timer K', () => {
    const { clock, log, machine } = start(false);
    machine.receive(response(200));
    machine.receive(response(200));
    clock.advance(5000);
    expect(log).toEqual(['0 send request', '0 got 200', '5000 end']);
    expect(clock.live).toBe(0);
  });

  it('timer K is zero over a reliable transport', () => {
    const { log, machine } = start(true);
    machine.receive(response(500));
    expect(log).toEqual(['0 send request', '0 got 500', '0 end']);
  });
});

describe('INVITE server (17.2.1, RFC 6026)', () => {
  const start = (reliable: boolean) => {
    const parts = setUp();
    return { ...parts, machine: new InviteServer(parts.clock, DEFAULT_TIMERS, reliable, parts.user) };
  };
  const bytes = (status: number) => Buffer.from(String(status));

  it('repeats the last provisional answer to a repeated INVITE, and each minute while it rings', () => {
    const { clock, log, machine } = start(false);
    machine.respond(100, bytes(100));
    machine.repeated();
    machine.respond(180, bytes(180));
    machine.repeated();
    clock.advance(2 * RINGING_REPEAT_MS);
    expect(log).toEqual([
      '0 send 100',
      '0 again 100',
      '0 send 180',
      '0 again 180',
      '60000 again 180',
      '120000 again 180',
    ]);
    machine.terminate();
    expect(clock.live).toBe(0);
  });

  it('timer G doubles to T2 and timer H ends an unacknowledged failure', () => {
    const { clock, log, machine } = start(false);
    expect(machine.respond(486, bytes(486))).toBe(true);
    expect(machine.respond(200, bytes(200))).toBe(false);
    clock.advance(40_000);
    const repeats = doubling(500, 32_000, 4000).map((at) => `${at} again 486`);
    expect(log).toEqual(['0 send 486', ...repeats, '32000 no ack', '32000 end']);
    expect(clock.live).toBe(0);
  });

  it('the ACK stops the repeats; timer I absorbs what is still under way', () => {
    const { clock, log, machine } = start(false);
    machine.respond(486, bytes(486));
    clock.advance(600);
    machine.acknowledged();
    machine.acknowledged();
    machine.repeated();
    clock.advance(5000);
    expect(log).toEqual(['0 send 486', '500 again 486', '5600 end']);
    expect(clock.live).toBe(0);
  });

  it('over a reliable transport a failure is sent once, and the ACK ends it', () => {
    const { clock, log, machine } = start(true);
    machine.respond(486, bytes(486));
    clock.advance(10_000);
    machine.acknowledged();
    expect(log).toEqual(['0 send 486', '10000 end']);
    expect(clock.live).toBe(0);
  });

  it('absorbs a repeated INVITE after a 2xx until timer L', () => {
    const { clock, log, machine } = start(false);
    machine.respond(200, bytes(200));
    machine.repeated();
    clock.advance(32_000);
    expect(log).toEqual(['0 send 200', '32000 end']);
    expect(clock.live).toBe(0);
  });
});

describe('non-INVITE server (17.2.2)', () => {
  const start = (reliable: boolean) => {
    const parts = setUp();
    return { ...parts, machine: new NonInviteServer(parts.clock, DEFAULT_TIMERS, reliable, parts.user) };
  };
  const bytes = (status: number) => Buffer.from(String(status));

  it('absorbs repeats before an answer, repeats the last one afterwards, until timer J', () => {
    const { clock, log, machine } = start(false);
    machine.repeated();
    machine.respond(100, bytes(100));
    machine.repeated();
    machine.respond(200, bytes(200));
    machine.repeated();
    expect(machine.respond(500, bytes(500))).toBe(false);
    clock.advance(32_000);
    expect(log).toEqual(['0 send 100', '0 again 100', '0 send 200', '0 again 200', '32000 end']);
    expect(clock.live).toBe(0);
  });

  it('timer J is zero over a reliable transport', () => {
    const { log, machine, clock } = start(true);
    machine.respond(200, bytes(200));
    expect(log).toEqual(['0 send 200', '0 end']);
    expect(clock.live).toBe(0);
  });

  it('gives up when the application never answers', () => {
    const { clock, log } = start(false);
    clock.advance(64_000);
    expect(log).toEqual(['64000 no answer', '64000 end']);
    expect(clock.live).toBe(0);
  });
});

describe('the real clock', () => {
  it('counts what runs and survives a callback that throws', async () => {
    let error: unknown;
    const clock = new SystemClock((e) => {
      error = e;
    });
    const cancelled = clock.after(60_000, () => undefined);
    await new Promise<void>((resolve) => {
      clock.after(1, () => {
        setImmediate(resolve);
        throw new Error('boom');
      });
    });
    expect(String(error)).toContain('boom');
    expect(clock.live).toBe(1);
    cancelled.cancel();
    cancelled.cancel();
    expect(clock.live).toBe(0);
  });
});
