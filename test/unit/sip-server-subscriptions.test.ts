import { describe, expect, it } from 'vitest';
import { Subscription } from '../../sip/server/dialogs/subscription.js';
import { expiresOf, isSameEvent, subscriptionState } from '../../sip/server/dialogs/subscriptions.js';
import { FakeClock } from '../support/fake-sip-clock.js';

describe('the words of RFC 6665', () => {
  it.each([
    [undefined, false, null],
    ['active', false, null],
    ['Active ; expires=60', false, 60],
    ['pending;expires=x', false, null],
    ['terminated', true, null],
    ['TERMINATED;reason=timeout', true, null],
    ['terminated-not', false, null],
  ])('Subscription-State %j', (value, isTerminated, expiresSec) => {
    expect(subscriptionState(value)).toEqual({ isTerminated, expiresSec });
  });

  it.each([
    [undefined, null],
    ['', null],
    ['-1', null],
    ['0', 0],
    [' 60 ', 60],
    ['4294967295', 2_000_000],
  ])('Expires %j', (value, seconds) => {
    expect(expiresOf(value)).toBe(seconds);
  });

  it.each([
    ['presence', 'presence', true],
    ['presence;id=1', 'presence; id=1', true],
    ['presence', 'dialog', false],
    ['presence;id=1', 'presence;id=2', false],
    ['presence', 'presence;id=1', false],
    ['presence', undefined, true],
  ])('Event %j and %j', (one, other, expected) => {
    expect(isSameEvent(one, other)).toBe(expected);
  });

  it('a refresh takes the place of the timer, and the end is counted once', () => {
    const clock = new FakeClock();
    const fired: string[] = [];
    const subscription = new Subscription('presence', () => fired.push('ended'));
    subscription.lasts(clock.after(1000, () => fired.push('first')));
    clock.advance(900);
    subscription.lasts(clock.after(1000, () => fired.push('second')));
    clock.advance(999);
    expect([fired, clock.live]).toEqual([[], 1]);
    subscription.stop();
    subscription.stop();
    clock.advance(5000);
    expect([fired, clock.live]).toEqual([['ended'], 0]);
  });
});
