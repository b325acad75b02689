import { expect, test } from 'vitest';
import { Cookies } from '../../net/cookies.js';

const from = new URL('http://ivr.example.co.uk/calls/start');

test.each<[setCookie: string, to: string, sent: string]>([
  ['a=1', 'http://ivr.example.co.uk/calls/next', 'a=1'],
  ['a=1', 'http://ivr.example.co.uk/other', ''],
  ['a=1; Path=/', 'http://ivr.example.co.uk/other', 'a=1'],
  ['a=1; Path=/calls', 'http://ivr.example.co.uk/callsigns', ''],
  ['a=1; Path=/', 'http://example.co.uk/', ''],
  ['a=1; Path=/; Domain=example.co.uk', 'http://other.example.co.uk/', 'a=1'],
  ['a=1; Path=/; Domain=co.uk', 'http://ivr.example.co.uk/', ''],
  ['a=1; Path=/; Domain=co.uk', 'http://evil.co.uk/', ''],
  ['a=1; Path=/; Domain=example.com', 'http://example.com/', ''],
  ['a=1; Path=/; Secure', 'http://ivr.example.co.uk/', ''],
  ['a=1; Path=/; Max-Age=0', 'http://ivr.example.co.uk/', ''],
  ['a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT', 'http://ivr.example.co.uk/', ''],
  ['a=1; Path=/; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT', 'http://ivr.example.co.uk/', 'a=1'],
  ['=', 'http://ivr.example.co.uk/calls/next', ''],
  [`a=${'x'.repeat(5000)}; Path=/`, 'http://ivr.example.co.uk/', ''],
])('%s goes to %s as "%s"', (setCookie, to, sent) => {
  const cookies = new Cookies();
  cookies.keep(from, [setCookie]);
  expect(cookies.headerFor(new URL(to))).toBe(sent);
});

test('a secure cookie of an encrypted address stays on encrypted ones', () => {
  const cookies = new Cookies();
  cookies.keep(new URL('https://example.com/'), ['a=1; Secure']);
  expect(cookies.headerFor(new URL('https://example.com/'))).toBe('a=1');
  expect(cookies.headerFor(new URL('http://example.com/'))).toBe('');
});

test('the later value wins, and there are fifty at most', () => {
  const cookies = new Cookies();
  cookies.keep(from, ['a=1', 'a=2', ...Array.from({ length: 200 }, (_, i) => `c${i}=1`)]);
  const sent = cookies.headerFor(from).split('; ');
  expect(sent[0]).toBe('a=2');
  expect(sent).toHaveLength(50);
});
