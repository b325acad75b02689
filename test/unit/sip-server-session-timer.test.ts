import { describe, expect, it } from 'vitest';
import { agree, isIntervalTooSmall, SessionTimer, sessionExpires } from '../../sip/server/dialogs/session-timer.js';
import { parseMessage, type SipRequest, type SipResponse } from '../../sip/server/message/message.js';
import { FakeClock } from '../support/fake-sip-clock.js';

const invite = (...lines: string[]) =>
  parseMessage(Buffer.from(`INVITE sip:a@b SIP/2.0\r\n${lines.join('\r\n')}\r\n\r\n`)) as SipRequest;
const ok = (...lines: string[]) =>
  parseMessage(Buffer.from(`SIP/2.0 200 OK\r\n${lines.join('\r\n')}\r\n\r\n`)) as SipResponse;

describe('what both sides agree on (RFC 4028 9)', () => {
  const own = (value: string) => [{ name: 'session-expires', value }];
  it.each([
    ['nobody asks', [], [], null],
    [
      'the caller asks, naming itself',
      ['Supported: timer', 'Session-Expires: 600;refresher=uac'],
      [],
      '600;refresher=uac',
    ],
    ['the caller asks us', ['Supported: timer', 'x: 600 ; refresher=uas'], [], '600;refresher=uas'],
    ['the caller asks nobody in particular', ['k: timer', 'x: 600'], [], '600;refresher=uac'],
    ['a proxy asks, the caller knows no timers', ['Session-Expires: 600'], [], '600;refresher=uas'],
    ['the application asks, the caller knows timers', ['Supported: timer'], own('1800'), '1800;refresher=uac'],
    ['the application asks, the caller does not know them', [], own('1800;refresher=uac'), '1800;refresher=uas'],
    [
      'the application shortens',
      ['Supported: timer', 'Session-Expires: 600;refresher=uac'],
      own('300;refresher=uas'),
      '300;refresher=uac',
    ],
    ['the application asks for too little', ['Supported: timer'], own('10'), '90;refresher=uac'],
    ['the value is none', ['Supported: timer', 'Session-Expires: -5'], [], null],
  ])('%s', (_what, lines, answer, expected) => {
    const { headers } = agree(invite(...lines), answer);
    expect(headers.find((h) => h.name === 'session-expires')?.value ?? null).toBe(expected);
    const timers = lines.some((line) => line.endsWith('timer'));
    expect(headers.some((h) => h.name === 'require' && h.value === 'timer')).toBe(expected !== null && timers);
  });

  it('refuses less than 90 s of a caller that can do something about it', () => {
    expect(isIntervalTooSmall(invite('Supported: timer', 'Session-Expires: 89'))).toBe(true);
    expect(isIntervalTooSmall(invite('Supported: timer', 'Session-Expires: 90'))).toBe(false);
    expect(isIntervalTooSmall(invite('Session-Expires: 89'))).toBe(false);
  });

  it('reads the header in any dress', () => {
    expect(sessionExpires('1800;x=y;Refresher=UAS')).toEqual({ seconds: 1800, refresher: 'uas' });
    for (const bad of [undefined, '', 'soon', '-1', '99999999999']) expect(sessionExpires(bad)).toBeNull();
  });
});

describe('the timer', () => {
  function setUp(ownsCallId = true) {
    const clock = new FakeClock();
    const log: string[] = [];
    let finish: (status: number, minSe?: string) => void = () => undefined;
    const timer = new SessionTimer(clock, {
      ownsCallId,
      refresh: (headers, done) => {
        log.push(`${clock.now() / 1000} refresh ${headers[0]!.value}`);
        finish = done;
      },
      expired: (text) => log.push(`${clock.now() / 1000} ${text}`),
    });
    return { clock, log, timer, refreshed: (status: number, minSe?: string) => finish(status, minSe) };
  }

  it('we refresh at half the interval, and again after each success', () => {
    const { clock, log, timer, refreshed } = setUp();
    timer.set({ seconds: 100, refresher: 'uas' }, 'uas');
    clock.advance(50_000);
    refreshed(200);
    timer.answered(ok('Session-Expires: 100;refresher=uac'));
    clock.advance(50_000);
    expect(log).toEqual(['50 refresh 100;refresher=uac', '100 refresh 100;refresher=uac']);
    timer.stop();
    expect(clock.live).toBe(0);
  });

  it.each([
    ['ours', true, 2100, 4000],
    ['theirs', false, 0, 2000],
  ])(
    'a refresh that met 491 comes again when RFC 3261 14.1 says: the Call-ID is %s',
    (_whose, owns, leastMs, mostMs) => {
      const pauses = Array.from({ length: 200 }, () => {
        const { clock, log, timer, refreshed } = setUp(owns);
        timer.set({ seconds: 100, refresher: 'uac' }, 'uac');
        clock.advance(50_000);
        refreshed(491);
        let pauseMs = 0;
        for (; log.length < 2 && pauseMs <= 5000; pauseMs += 20) clock.advance(20);
        timer.stop();
        return pauseMs;
      });
      expect(Math.min(...pauses)).toBeGreaterThanOrEqual(leastMs);
      expect(Math.max(...pauses)).toBeLessThanOrEqual(mostMs + 20);
      expect(Math.max(...pauses) - Math.min(...pauses), 'both ends would meet again').toBeGreaterThan(500);
    },
  );

  it('a refresh that is too short for the far side comes again at once as long as that one wants; another refusal is not the end yet', () => {
    const { clock, log, timer, refreshed } = setUp();
    timer.set({ seconds: 100, refresher: 'uac' }, 'uac');
    clock.advance(50_000);
    refreshed(422, '120');
    clock.advance(1);
    refreshed(500);
    clock.advance(12_000);
    expect(log.map((line) => line.split(' ')[2])).toEqual([
      '100;refresher=uac',
      '120;refresher=uac',
      '120;refresher=uac',
    ]);
    refreshed(500);
    clock.advance(12_000);
    expect(log.at(-1)).toBe('68 Session timer expired');
    expect(clock.live).toBe(0);
  });

  it('a far side that wants ever longer intervals is not asked without a break', () => {
    const { clock, log, timer, refreshed } = setUp();
    timer.set({ seconds: 100, refresher: 'uac' }, 'uac');
    clock.advance(50_000);
    for (let minSe = 120; minSe < 140; minSe++) {
      refreshed(422, String(minSe));
      clock.advance(1);
    }
    expect(log).toHaveLength(2);
    timer.stop();
  });

  it('a far side that means no time at all is not refreshed without a break', () => {
    const { clock, log, timer } = setUp();
    timer.set({ seconds: 0, refresher: 'uac' }, 'uac');
    clock.advance(999);
    expect(log).toEqual([]);
    timer.stop();
  });

  it('we end the call when nobody there knows of it', () => {
    const { clock, log, timer, refreshed } = setUp();
    timer.set({ seconds: 100, refresher: 'uac' }, 'uac');
    clock.advance(50_000);
    refreshed(491);
    clock.advance(4000);
    expect(log).toHaveLength(2);
    refreshed(481);
    expect(log[2]).toContain('Session timer refresh failed');
    expect(clock.live).toBe(0);
  });

  it('they refresh: the call ends shortly before the interval does (RFC 4028 10)', () => {
    const { clock, log, timer } = setUp();
    timer.set({ seconds: 90, refresher: 'uac' }, 'uas');
    clock.advance(59_000);
    timer.set({ seconds: 90, refresher: 'uac' }, 'uas');
    clock.advance(59_999);
    expect(log).toEqual([]);
    clock.advance(1);
    expect(log).toEqual(['119 Session timer expired']);
    timer.set({ seconds: 1800, refresher: 'uac' }, 'uas');
    clock.advance((1800 - 32) * 1000);
    expect(log).toHaveLength(2);
  });

  it('an answer without the header ends the agreement', () => {
    const { clock, timer } = setUp();
    timer.set({ seconds: 90, refresher: 'uac' }, 'uas');
    timer.answered(ok('Subject: none'));
    expect(clock.live).toBe(0);
  });
});
