import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { PhoneNumber } from '../../store/routing/phone-numbers.js';
import type { RouteRule } from '../../store/routing/route-rule.js';
import type { Mode } from '../../store/tenants/scope.js';
import type { Ending } from '../core/outcome.js';
import { drawRule, ruleMisfit } from './rules.js';

/** What the router may look up; the store implements it. */
export interface RouteLookup {
  findDialled(number: string, mode: Mode): PhoneNumber | undefined;
  getForCall(endpointId: string): Endpoint | undefined;
}

/** One line of the decision trace, kept with the call. */
export interface RouteVerdict {
  rule: string;
  verdict: 'matched' | 'skipped' | 'refused';
  detail: string;
}

export type Decision =
  /** No organization has the number. */
  | { kind: 'unknown'; trace: RouteVerdict[] }
  | { kind: 'refuse'; number: PhoneNumber; endpointId: string | null; ending: Ending; trace: RouteVerdict[] }
  /** Endpoints in the order in which their agents are tried. */
  | { kind: 'connect'; number: PhoneNumber; endpoints: [Endpoint, ...Endpoint[]]; trace: RouteVerdict[] };

/** A call to be routed. */
export interface RouteQuestion {
  dialled: string;
  from: string;
  /** The organizations of the trunks that match the source; null: a trunk shared by all organizations. */
  trunkOrganizations: readonly (string | null)[];
  mode: Mode;
  at: Date;
}

/**
 * Dialled number → endpoint and its fallbacks, or a refusal. Pure except for the look-ups and `draw` (weights); every verdict is in the trace.
 * The number's `routes` come first, in their order; then its endpoint.
 */
export function route(question: RouteQuestion, lookup: RouteLookup, draw: () => number = Math.random): Decision {
  const trace: RouteVerdict[] = [];
  const number = lookup.findDialled(question.dialled, question.mode);
  const owners = question.trunkOrganizations;
  if (number === undefined || !owners.some((owner) => owner === null || owner === number.organizationId)) {
    trace.push({ rule: 'number', verdict: 'refused', detail: 'No such number on this trunk.' });
    return { kind: 'unknown', trace };
  }
  trace.push({ rule: 'number', verdict: 'matched', detail: number.id });
  const refuse = (endpointId: string | null, cause: Ending['cause'], detail: string): Decision => {
    trace.push({ rule: 'endpoint', verdict: 'refused', detail });
    return { kind: 'refuse', number, endpointId, ending: { cause, source: 'system', detail }, trace };
  };
  if (number.status !== 'active') return refuse(null, 'no_endpoint', 'The number is inactive.');
  const ruled = byRules(number, question, lookup, draw, trace);
  const endpointId = ruled?.id ?? number.endpointId;
  if (endpointId === null) return refuse(null, 'no_endpoint', 'The number has no endpoint.');
  const endpoint = ruled ?? lookup.getForCall(endpointId);
  if (endpoint === undefined) return refuse(null, 'no_endpoint', 'The number has no endpoint.');
  if (endpoint.status !== 'active') return refuse(endpoint.id, 'endpoint_inactive', 'The endpoint is inactive.');
  trace.push({ rule: 'endpoint', verdict: 'matched', detail: endpoint.id });
  return { kind: 'connect', number, endpoints: [endpoint, ...fallbacksOf(endpoint, number, lookup, trace)], trace };
}

/** The endpoint of the first rule that fits and can take calls. */
function byRules(
  number: PhoneNumber,
  question: RouteQuestion,
  lookup: RouteLookup,
  draw: () => number,
  trace: RouteVerdict[],
): Endpoint | undefined {
  const fitting: RouteRule[] = [];
  const endpoints = new Map<RouteRule, Endpoint>();
  number.routes.forEach((rule, index) => {
    const endpoint = lookup.getForCall(rule.endpoint_id);
    const misfit = ruleMisfit(rule, question) ?? (endpoint?.status === 'active' ? null : 'Its endpoint is inactive.');
    if (misfit !== null || endpoint === undefined) {
      trace.push({ rule: `routes[${index}]`, verdict: 'skipped', detail: misfit ?? 'Its endpoint is gone.' });
      return;
    }
    fitting.push(rule);
    endpoints.set(rule, endpoint);
  });
  const drawn = drawRule(fitting, draw());
  if (drawn === undefined) return undefined;
  trace.push({ rule: `routes[${number.routes.indexOf(drawn)}]`, verdict: 'matched', detail: drawn.endpoint_id });
  return endpoints.get(drawn);
}

function fallbacksOf(endpoint: Endpoint, number: PhoneNumber, lookup: RouteLookup, trace: RouteVerdict[]): Endpoint[] {
  const found: Endpoint[] = [];
  for (const [rule, id] of [
    ['endpoint fallback', endpoint.fallbackEndpointId],
    ['number fallback', number.fallbackEndpointId],
  ] as const) {
    if (id === null || id === endpoint.id || found.some((known) => known.id === id)) continue;
    const fallback = lookup.getForCall(id);
    const usable = fallback?.status === 'active';
    if (usable) found.push(fallback);
    trace.push({ rule, verdict: usable ? 'matched' : 'skipped', detail: id });
  }
  return found;
}
