import { describe, expect, it } from 'vitest';
import { type RouteLookup, type RouteQuestion, route } from '../../src/call/routing/router.js';
import { drawRule, ruleMisfit } from '../../src/call/routing/rules.js';
import type { EndpointForCall } from '../../src/store/routing/endpoints.js';
import type { PhoneNumber } from '../../src/store/routing/phone-numbers.js';
import type { RouteRule } from '../../src/store/routing/route-rule.js';

const at = new Date('2026-11-21T10:30:00Z'); // a Saturday
const endpoint = (id: string, change: Partial<EndpointForCall> = {}): EndpointForCall => ({
  id,
  organizationId: 'org',
  name: id,
  type: 'agent',
  target: 'ws://agent.example/',
  provider: 'custom',
  providerConfig: {},
  record: false,
  status: 'active',
  health: 'unknown',
  fallbackEndpointId: null,
  createdAt: at,
  updatedAt: at,
  webhookSecret: null,
  signingSecrets: [],
  eventsDisabledAt: null,
  ...change,
});
const number = (change: Partial<PhoneNumber> = {}): PhoneNumber => ({
  id: 'number',
  organizationId: 'org',
  mode: 'live',
  number: '+15550100',
  name: '',
  endpointId: 'main',
  fallbackEndpointId: null,
  routes: [],
  statusCallbackUrl: null,
  statusCallbackMethod: 'POST',
  status: 'active',
  createdAt: at,
  updatedAt: at,
  ...change,
});
const question: RouteQuestion = {
  dialled: '15550100',
  from: '+4930123',
  trunkOrganizations: [null],
  mode: 'live',
  at,
};
const lookup = (owned: PhoneNumber | undefined, ...endpoints: EndpointForCall[]): RouteLookup => ({
  findDialled: () => owned,
  getForCall: (id) => endpoints.find((known) => known.id === id),
});

describe('route', () => {
  it('connects the endpoint of the number, then the fallbacks, each once', () => {
    const decision = route(
      question,
      lookup(
        number({ fallbackEndpointId: 'spare' }),
        endpoint('main', { fallbackEndpointId: 'second' }),
        endpoint('second'),
        endpoint('spare'),
      ),
    );
    expect(decision.kind === 'connect' && decision.endpoints.map((e) => e.id)).toEqual(['main', 'second', 'spare']);
  });

  it.each<[string, PhoneNumber | undefined, EndpointForCall[], string]>([
    ['an unknown number', undefined, [], 'unknown'],
    ['an inactive number', number({ status: 'inactive' }), [endpoint('main')], 'no_endpoint'],
    ['a number without endpoint', number({ endpointId: null }), [], 'no_endpoint'],
    ['a number whose endpoint is gone', number(), [], 'no_endpoint'],
    ['an inactive endpoint', number(), [endpoint('main', { status: 'inactive' })], 'endpoint_inactive'],
  ])('refuses %s', (_, owned, endpoints, outcome) => {
    const decision = route(question, lookup(owned, ...endpoints));
    expect(decision.kind === 'refuse' ? decision.ending.cause : decision.kind).toBe(outcome);
  });

  it("a number of another organization does not exist on an organization's trunk", () => {
    const decision = route({ ...question, trunkOrganizations: ['other'] }, lookup(number(), endpoint('main')));
    expect(decision.kind).toBe('unknown');
  });

  it('an inactive fallback is skipped, and the trace says so', () => {
    const decision = route(
      question,
      lookup(number({ fallbackEndpointId: 'spare' }), endpoint('main'), endpoint('spare', { status: 'inactive' })),
    );
    expect(decision.kind === 'connect' && decision.endpoints.length).toBe(1);
    expect(decision.trace.at(-1)).toEqual({ rule: 'number fallback', verdict: 'skipped', detail: 'spare' });
  });

  it('takes the first rule that fits, and the endpoint of the number when none does', () => {
    const routes: RouteRule[] = [
      { endpoint_id: 'us', from_prefix: '+1' },
      { endpoint_id: 'de', from_prefix: '+49' },
    ];
    const all = [endpoint('main'), endpoint('us'), endpoint('de')];
    const chosen = (from: string) => {
      const decision = route({ ...question, from }, lookup(number({ routes }), ...all));
      return decision.kind === 'connect' && decision.endpoints[0].id;
    };
    expect([chosen('+4930123'), chosen('+12025550100'), chosen('anonymous')]).toEqual(['de', 'us', 'main']);
  });
});

describe('schedule of a rule', () => {
  it.each<[string, RouteRule['schedule'], boolean]>([
    ['within the hours of a zone', { timezone: 'Europe/Berlin', start: '11:00', end: '12:00' }, true],
    ['end is exclusive', { timezone: 'UTC', start: '09:00', end: '10:30' }, false],
    ['start is inclusive', { timezone: 'UTC', start: '10:30', end: '10:31' }, true],
    ['another day', { timezone: 'UTC', days: [1, 2, 3, 4, 5] }, false],
    ['the day in the zone', { timezone: 'Pacific/Auckland', days: [6] }, true],
    ['over midnight, before it', { timezone: 'UTC', days: [6], start: '10:00', end: '02:00' }, true],
    [
      'over midnight, after it, belongs to the day before',
      { timezone: 'Asia/Tokyo', days: [6], start: '19:00', end: '20:00' },
      true,
    ],
    ['night shift of Friday is over', { timezone: 'UTC', days: [5], start: '22:00', end: '06:00' }, false],
    ['night shift of Friday runs into Saturday', { timezone: 'UTC', days: [5], start: '22:00', end: '11:00' }, true],
  ])('%s', (_, schedule, fits) => {
    expect(ruleMisfit({ endpoint_id: 'x', ...(schedule ? { schedule } : {}) }, { from: '+1', at }) === null).toBe(fits);
  });
});

describe('weights', () => {
  const rules: RouteRule[] = [{ endpoint_id: 'a', weight: 3 }, { endpoint_id: 'b', weight: 1 }, { endpoint_id: 'c' }];
  it.each([
    [0, 'a'],
    [0.74, 'a'],
    [0.76, 'b'],
    [0.999, 'b'],
  ])('draw %f takes %s', (draw, id) => expect(drawRule(rules, draw)?.endpoint_id).toBe(id));
  it('a first rule without a weight decides alone', () =>
    expect(drawRule([...rules].reverse(), 0.99)?.endpoint_id).toBe('c'));
  it('nothing fits', () => expect(drawRule([], 0.5)).toBeUndefined());
});
