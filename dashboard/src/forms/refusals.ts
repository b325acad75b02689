/** What the API refused, by the field it names. */

export interface Refusal {
  /** `['gateways', '0', 'uri']`; empty for the field itself. */
  path: string[];
  message: string;
}

/** From `details.fields` of a refusal: `provider_config.model`, `gateways.0.uri`, `actions[2].text`. */
export function refusalsOf(fields: readonly { path: string; message: string }[]): Refusal[] {
  return fields.map(({ path, message }) => ({ path: path.split(/[.[\]]+/).filter((part) => part !== ''), message }));
}

/** Those within the field `name`, with their paths from there. */
export function within(refusals: readonly Refusal[], name: string): Refusal[] {
  return refusals.flatMap(({ path, message }) => (path[0] === name ? [{ path: path.slice(1), message }] : []));
}

/** The sentence about the field itself; undefined if there is none. */
export function aboutItself(refusals: readonly Refusal[]): string | undefined {
  return refusals.find(({ path }) => path.length === 0)?.message;
}

/** One sentence about a field and all it holds, for a field that is one input. */
export function aboutAll(refusals: readonly Refusal[]): string | undefined {
  if (refusals.length === 0) return undefined;
  return refusals.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')} ${message}`)).join('; ');
}
