/** How an outbound INVITE of a trunk writes the two numbers and identifies the caller. */
import type { OutboundIdentity } from '../../store/routing/trunks.js';

/** The parts of an INVITE that the trunk decides. */
export interface Presentation {
  to: string;
  from: string;
  fromDomain?: string;
  headers: Record<string, string>;
}

/** Templates know `{e164}` (`+15551234567`) and `{digits}` (`15551234567`). */
export function presentationOf(call: { from: string; to: string }, identity: OutboundIdentity): Presentation {
  const isWithheld = identity.privacy === 'id';
  const asserted = identity.asserted_identity === null ? null : filled(identity.asserted_identity, call.from);
  const diversion = identity.diversion === null ? null : filled(identity.diversion, call.from);
  return {
    to: filled(identity.to_format, call.to),
    from: isWithheld ? 'anonymous' : filled(identity.from_format, call.from),
    ...(identity.from_domain === null ? {} : { fromDomain: identity.from_domain }),
    headers: {
      ...identity.headers,
      // RFC 3325: with `Privacy: id` the trusted carrier still gets the caller's identity, but does not pass it on.
      ...(asserted === null ? {} : { 'P-Asserted-Identity': `<${asserted}>` }),
      // RFC 5806.
      ...(diversion === null ? {} : { Diversion: `<${diversion}>;reason=unconditional` }),
      ...(isWithheld ? { Privacy: 'id' } : {}),
    },
  };
}

function filled(template: string, number: string): string {
  return template.replaceAll('{e164}', number).replaceAll('{digits}', number.replace(/^\+/, ''));
}
