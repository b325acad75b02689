/** Lists in Twilio's format, page by page. */
import type { FastifyRequest } from 'fastify';
import { refuse } from './form.js';

/** The last item of the page before. */
export interface Place {
  createdMs: number;
  id: string;
}

export type Query = { readonly [name: string]: string | undefined };

const usualSize = 50;
const mostOnOnePage = 1000;
const dayMs = 86_400_000;

export function queryOf({ query }: FastifyRequest): Query {
  const fields = query as { [name: string]: string | string[] | undefined };
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]),
  );
}

export class AskedPage {
  readonly size: number;
  readonly number: number;
  /** null: the first page. */
  readonly after: Place | null;

  constructor(private readonly request: FastifyRequest) {
    const query = queryOf(request);
    this.size = whole(query, 'PageSize', 1, mostOnOnePage) ?? usualSize;
    this.number = whole(query, 'Page', 0, Number.MAX_SAFE_INTEGER) ?? 0;
    this.after = query.PageToken === undefined ? null : placeOf(query.PageToken);
  }

  /** `items` has at most one more than the page takes; it tells that there is another page. */
  of(name: string, items: readonly { place: Place; shown: object }[]): object {
    const page = items.slice(0, this.size);
    const last = page.at(-1)?.place;
    return this.answer(
      name,
      page.map(({ shown }) => shown),
      items.length > this.size && last !== undefined ? tokenOf(last) : null,
    );
  }

  /** The page of a list that is there as a whole; places are numbers then. */
  ofAll(name: string, all: readonly object[]): object {
    const from = this.number * this.size;
    const page = all.slice(from, from + this.size);
    return this.answer(name, page, from + this.size < all.length ? '' : null);
  }

  private answer(name: string, page: readonly object[], nextToken: string | null): object {
    const { size, number } = this;
    const start = number * size;
    return {
      [name]: page,
      page: number,
      page_size: size,
      start,
      end: start + Math.max(0, page.length - 1),
      uri: this.request.url,
      first_page_uri: this.uri(0, ''),
      next_page_uri: nextToken === null ? null : this.uri(number + 1, nextToken),
      previous_page_uri: number > 0 && nextToken === '' ? this.uri(number - 1, '') : null,
    };
  }

  private uri(number: number, token: string): string {
    const { pathname, searchParams } = new URL(this.request.url, 'http://unused');
    searchParams.set('PageSize', String(this.size));
    searchParams.set('Page', String(number));
    searchParams.delete('PageToken');
    if (token !== '') searchParams.set('PageToken', token);
    return `${pathname}?${searchParams}`;
  }
}

/** The page that was asked for of a list that is there as a whole. */
export function onePage(name: string, request: FastifyRequest, all: readonly object[]): object {
  return new AskedPage(request).ofAll(name, all);
}

/** The period of `Name>`, `Name<` and `Name`: moments, or days of UTC as `YYYY-MM-DD`, all inclusive. */
export function periodOf(query: Query, name: string): { fromMs?: number; beforeMs?: number } {
  const [after, before, on] = [query[`${name}>`], query[`${name}<`], query[name]];
  const moment = (text: string) => {
    const ms = Date.parse(text);
    return Number.isFinite(ms) ? ms : refuse(name, 'must be a date (YYYY-MM-DD) or a time of RFC 3339');
  };
  if (on !== undefined) {
    const fromMs = Math.floor(moment(on) / dayMs) * dayMs;
    return { fromMs, beforeMs: fromMs + dayMs };
  }
  return {
    ...(after === undefined ? {} : { fromMs: moment(after) }),
    // Twilio's clients send whole seconds.
    ...(before === undefined ? {} : { beforeMs: moment(before) + (/^\d{4}-\d\d-\d\d$/.test(before) ? dayMs : 1000) }),
  };
}

function whole(query: Query, name: string, minimum: number, maximum: number): number | null {
  const text = query[name];
  if (text === undefined || text === '') return null;
  const number = Number(text);
  return Number.isInteger(number) && number >= minimum && number <= maximum
    ? number
    : refuse(name, `must be a whole number from ${minimum}${maximum > mostOnOnePage ? '' : ` to ${maximum}`}`);
}

function tokenOf({ createdMs, id }: Place): string {
  return `PA${createdMs.toString(36)}-${id}`;
}

function placeOf(token: string): Place {
  const [, time, id] = /^PA([0-9a-z]{1,10})-([0-9a-f-]{36})$/.exec(token) ?? [];
  if (time === undefined || id === undefined) return refuse('PageToken', 'is not the one of a page');
  return { createdMs: Number.parseInt(time, 36), id };
}
