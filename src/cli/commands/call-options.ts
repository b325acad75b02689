/** Parsers of the option values of `call`, with their units. Each throws commander's error, which names the option. */
import { InvalidArgumentError } from 'commander';

/** `500ms`, `10s`, `2m`, or a plain number of seconds; in milliseconds. */
export function duration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)?$/.exec(text);
  if (!match) throw new InvalidArgumentError('Give a duration such as 500ms, 10s or 2m.');
  return Number(match[1]) * { ms: 1, s: 1000, m: 60_000 }[(match[2] ?? 's') as 'ms' | 's' | 'm'];
}

/** A duration, or `lost`. */
export function goodbye(text: string): number | 'lost' {
  return text === 'lost' ? 'lost' : duration(text);
}

/** Parts per million, within the range that a call tolerates. */
export function skew(text: string): number {
  const value = Number(/^([+-]?\d+(?:\.\d+)?)\s*(?:ppm)?$/i.exec(text)?.[1] ?? Number.NaN);
  if (!(Math.abs(value) <= 20_000)) throw new InvalidArgumentError('Give parts per million from -20000 to 20000.');
  return value;
}

/** `2%` or `2`. */
export function percent(text: string): number {
  const value = Number(/^(\d+(?:\.\d+)?)\s*%?$/.exec(text)?.[1] ?? Number.NaN);
  if (!(value >= 0 && value <= 100)) throw new InvalidArgumentError('Give a percentage from 0% to 100%.');
  return value;
}

/** A frequency within the telephone band. */
export function hertz(text: string): number {
  const value = Number(/^(\d+(?:\.\d+)?)\s*(?:Hz)?$/i.exec(text)?.[1] ?? Number.NaN);
  if (!(value >= 20 && value <= 3900)) throw new InvalidArgumentError('Give a frequency from 20 to 3900 Hz.');
  return value;
}

export function whole(least: number, most: number, step = 1): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most && value % step === 0) return value;
    throw new InvalidArgumentError(
      `Give a whole number from ${least} to ${most}${step > 1 ? ` in steps of ${step}` : ''}.`,
    );
  };
}

export function word<const W extends string>(...words: W[]): (text: string) => W {
  return (text) => {
    const found = words.find((one) => one.toLowerCase() === text.toLowerCase());
    if (found === undefined) throw new InvalidArgumentError(`Give ${words.join(' or ')}.`);
    return found;
  };
}

/** `host:port`, or a host with port 5060. */
export function hostAndPort(text: string): { host: string; port: number } {
  const match = /^([^\s:/@]+)(?::(\d{1,5}))?$/.exec(text);
  const port = Number(match?.[2] ?? 5060);
  if (!match?.[1] || port < 1 || port > 65535) throw new InvalidArgumentError('Give HOST or HOST:PORT.');
  return { host: match[1], port };
}
