/** What a trial calls: a number, or an endpoint by a number of its own that exists only while the trial runs. */
import { answerOf, api } from '../api/client';

export type TrialTarget = { kind: 'number'; number: string } | { kind: 'endpoint'; id: string };

/** From the value of the choice: `number:+1…` or `endpoint:uuid`. */
export function targetOf(choice: string): TrialTarget | null {
  const [kind, value = ''] = choice.split(/:(.*)/s);
  if (value === '') return null;
  return kind === 'endpoint' ? { kind, id: value } : { kind: 'number', number: value };
}

/** Runs `work` with a number that leads to the target; a number made for it is removed afterwards. */
export async function withNumber<T>(target: TrialTarget, work: (number: string) => Promise<T>): Promise<T> {
  if (target.kind === 'number') return work(target.number);
  const number = `+1500555${String(Math.floor(Math.random() * 9_000) + 1_000)}`;
  const body = { number, name: 'Try it (temporary)', endpoint_id: target.id };
  const made = await answerOf(api.POST('/v1/phone-numbers', { body }));
  try {
    return await work(number);
  } finally {
    await answerOf(api.DELETE('/v1/phone-numbers/{id}', { params: { path: { id: made.id } } })).catch(() => undefined);
  }
}
