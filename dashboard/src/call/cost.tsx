import { answerOf, api } from '../api/client';
import { useQuery } from '../api/query';
import type { CallDetail } from '../api/types';
import type { Me } from '../page';
import { duration, money } from '../ui/time';

/** The cost with its parts: the rate, the billed time, what was reserved. */
export function Cost({ call, me }: { call: CallDetail; me: Me }) {
  const rates = useQuery(`rates ${me.organization.id}`, (signal) =>
    answerOf(api.GET('/v1/organizations/{id}/rates', { params: { path: { id: me.organization.id } }, signal })),
  );
  const reserved = call.events.filter(({ event_type }) => event_type === 'balance.reserved');
  const settled = call.events.find(({ event_type }) => event_type === 'call.cost_settled');
  const other = call.direction === 'inbound' ? call.from_number : call.to_number;
  const rate = (rates.data?.rates ?? [])
    .filter(({ direction, prefix }) => direction === call.direction && other.startsWith(prefix))
    .sort((a, b) => b.prefix.length - a.prefix.length)[0];
  if (!rate && call.cost === 0 && reserved.length === 0)
    return <p class="soft">No rate applies to this call, so it costs nothing.</p>;
  const billed = rate ? billedSeconds(call.duration, rate) : call.duration;
  return (
    <dl class="facts">
      <dt>Cost</dt>
      <dd>
        <strong>{money(call.cost)}</strong>
        {!settled && call.status !== 'in_progress' && ', not settled yet'}
      </dd>
      {rate && (
        <>
          <dt>Rate today</dt>
          <dd>
            {money(rate.rate_cents_per_minute)} a minute for {rate.direction} {rate.prefix || 'any number'}
          </dd>
          <dt>Billed time</dt>
          <dd>
            {duration(billed)} (at least {rate.initial_increment_s} s, then by {rate.increment_s} s)
          </dd>
        </>
      )}
      {reserved.length > 0 && (
        <>
          <dt>Reserved</dt>
          <dd>
            {money(reserved.reduce((sum, { event_data }) => sum + Number(event_data.amount ?? 0), 0))} during the call
          </dd>
        </>
      )}
    </dl>
  );
}

function billedSeconds(seconds: number, rate: { initial_increment_s: number; increment_s: number }): number {
  if (seconds === 0) return 0;
  const beyond = Math.max(0, seconds - rate.initial_increment_s);
  return rate.initial_increment_s + Math.ceil(beyond / Math.max(1, rate.increment_s)) * rate.increment_s;
}
