/** Texts that strangers send: one that matches nothing must not keep a thread busy, however long it is. */
import { expect, test } from 'vitest';
import { fillIn, renderVariables, templateProblem } from '../../media/agents/variables.js';
import { parseDigest } from '../../sip/auth/digest.js';
import { keyOfInfo } from '../../src/call/party/info-key.js';
import { plivoXml } from '../../src/webhook/dialects/plivo-xml.js';
import { parseTwiml } from '../../src/webhook/twiml.js';

const many = 64_000;

/** Each took ten seconds and more when an expression tried every way to cut it. */
const limitMs = 5_000;

test('the credentials of a request', { timeout: limitMs }, () => {
  expect(parseDigest(`Digest ${'a'.repeat(many)}`)).toEqual({});
  expect(parseDigest(`Digest ${'-a'.repeat(many)}, realm=r`)).toEqual({ realm: 'r' });
});

test('the body of an INFO', { timeout: limitMs }, () => {
  const contentType = 'application/dtmf-relay';
  expect(keyOfInfo({ contentType, body: '\n'.repeat(many) })).toBeNull();
  expect(keyOfInfo({ contentType, body: `Duration=160\r\n${' '.repeat(many)}Signal = 5` })).toBe('5');
});

test('a template', { timeout: limitMs }, () => {
  const blanks = ' '.repeat(many);
  expect(templateProblem(`{{${blanks}`)).toContain('without its other half');
  expect(fillIn(`{{${blanks}name${blanks}}} {{${blanks}`, { name: 'Ada' })).toBe(`Ada {{${blanks}`);
  const facts = {
    callId: 'c',
    from: '1',
    to: '2',
    direction: 'inbound' as const,
    fromName: null,
    metadata: {},
    headers: {},
  };
  expect(renderVariables({ a: `{{${blanks}call.id }}{{${blanks}` }, facts).a).toHaveLength(1024);
});

test.each(['1'.repeat(many), `a${' '.repeat(many)}`, `${';'.repeat(many)}rate=`])(
  'the audio of a stream',
  { timeout: limitMs },
  (audio) => {
    const xml = `<Response><Stream contentType="${audio}!">wss://b.example/</Stream></Response>`;
    expect(parseTwiml(xml, 'https://app.example/', plivoXml)[0]).toMatchObject({ action: 'warn' });
  },
);
