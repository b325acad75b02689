import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { RepeatedMedia } from '../../media/agents/repeated-media.js';

const twilio = (base64: string, sid = 'MZ1') =>
  `{"event":"media","streamSid":"${sid}","media":{"payload":"${base64}"}}`;

function learnt(message: string, base64: string): RepeatedMedia {
  const repeated = new RepeatedMedia();
  repeated.learn(message, base64);
  return repeated;
}

describe('a message like the one that was parsed', () => {
  it.each([1, 2, 3, 159, 160, 161, 320, 1000])('of %i bytes gives the audio that the parser would', (bytes) => {
    const first = randomBytes(160).toString('base64');
    const repeated = learnt(twilio(first), first);
    for (let i = 0; i < 20; i++) {
      const audio = randomBytes(bytes);
      expect(repeated.read(Buffer.from(twilio(audio.toString('base64'))))).toEqual(Uint8Array.from(audio));
    }
  });

  it('may have any other text around it, before and behind', () => {
    const around = (base64: string) => `{ "media" : {"payload" : "${base64}", "name":"é😀"}, "streamSid":"x" }\n`;
    const repeated = learnt(around('AAAA'), 'AAAA');
    expect(repeated.read(Buffer.from(around('/+9z')))).toEqual(Uint8Array.from(Buffer.from('/+9z', 'base64')));
  });
});

describe('is left to the parser', () => {
  const audio = randomBytes(160).toString('base64');
  const repeated = learnt(twilio(audio), audio);

  it.each([
    ['nothing', ''],
    ['another stream', twilio(audio, 'MZ2')],
    ['a shorter text', '{"event":"media"}'],
    ['no audio', twilio('')],
    ['a quote in it', twilio('AA"A')],
    ['an escape in it', twilio('AA\\/')],
    ['a space in it', twilio('AA A')],
    ['the alphabet of addresses', twilio('AA-_')],
    ['an incomplete group', twilio('AAAAA')],
    ['padding within', twilio('AA==AAAA')],
    ['three of padding', twilio('A===')],
    ['a byte above ASCII', twilio('AAA\u00e9')],
    ['a further field', twilio(`${audio}","track":"x`)],
    ['another end', `${twilio(audio)} `],
  ])('%s', (_, message) => {
    expect(repeated.read(Buffer.from(message))).toBeNull();
  });

  it('everything before a message was parsed', () => {
    expect(new RepeatedMedia().read(Buffer.from(twilio(audio)))).toBeNull();
  });

  it.each([
    ['the same text twice: the other one may be meant', '{"a":"QUJD","payload":"QUJD"}', 'QUJD'],
    ['an escape: the payload may be written with it', '{"a":"QUJD","payload":"\\u0051UJD"}', 'QUJD'],
    ['a text that is not a string of its own', '{"payload":"xQUJD"}', 'QUJD'],
    ['a long text around it', `{"a":"${'x'.repeat(600)}","payload":"QUJD"}`, 'QUJD'],
  ])('what was learnt from %s', (_, message, base64) => {
    expect(learnt(message, base64).read(Buffer.from(message))).toBeNull();
  });
});

it('gives up on a bot that numbers its messages', () => {
  const repeated = new RepeatedMedia();
  const numbered = (n: number) => `{"n":${n},"payload":"QUJD"}`;
  for (let n = 10; n < 30; n++) repeated.learn(numbered(n), 'QUJD');
  expect(repeated.read(Buffer.from(numbered(29)))).toBeNull();
});
