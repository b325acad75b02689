import { Webhook } from 'standardwebhooks';
import twilio from 'twilio';
import { describe, expect, test } from 'vitest';
import { standardHeaders, twilioSignature, withBodyDigest } from '../../src/webhook/signature.js';

const secrets = ['new secret of 24 bytes..', 'old secret of 24 bytes..'].map(
  (text) => `whsec_${Buffer.from(text).toString('base64')}`,
);

describe('Standard Webhooks, as the standardwebhooks package checks them', () => {
  const body = '{"text":"ümlaut, 日本"}';
  const headers = standardHeaders(secrets, 'evt_1', Date.now(), body);

  test.each(secrets)('%s verifies', (secret) => {
    expect(new Webhook(secret).verify(body, headers)).toEqual({ text: 'ümlaut, 日本' });
  });

  test('a foreign secret, another body, another id and an old time do not', () => {
    const [secret = ''] = secrets;
    const foreign = `whsec_${Buffer.from('a secret of somebody else').toString('base64')}`;
    expect(() => new Webhook(foreign).verify(body, headers)).toThrow();
    expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow();
    expect(() => new Webhook(secret).verify(body, { ...headers, 'webhook-id': 'evt_2' })).toThrow();
    const old = standardHeaders(secrets, 'evt_1', Date.now() - 600_000, body);
    expect(() => new Webhook(secret).verify(body, old)).toThrow();
  });
});

describe("Twilio's signature, as the twilio package checks it", () => {
  const token = secrets[0] ?? '';
  const url = 'https://ivr.example.com/voice?flow=a%20b';
  const fields = { To: '+15550100', From: '+12025550199', CallSid: 'CA1', Digits: '1#', SpeechResult: 'grüß dich' };

  test('of a form', () => {
    const signature = twilioSignature(token, url, fields);
    expect(twilio.validateRequest(token, signature, url, fields)).toBe(true);
    expect(twilio.validateRequest(token, signature, url, { ...fields, Digits: '2' })).toBe(false);
    expect(twilio.validateRequest('other', signature, url, fields)).toBe(false);
  });

  test('of a JSON body', () => {
    const body = '{"a":1}';
    const signed = withBodyDigest(url, body);
    const signature = twilioSignature(token, signed);
    expect(twilio.validateRequestWithBody(token, signature, signed, body)).toBe(true);
    expect(twilio.validateRequestWithBody(token, signature, signed, '{"a":2}')).toBe(false);
    expect(new URL(withBodyDigest('https://a.example/', body)).searchParams.get('bodySHA256')).toHaveLength(64);
  });

  test.each(['wss://bot.example.com/media', 'ws://127.0.0.1:8080/media', 'https://ivr.example.com:8443/voice'])(
    'of %s, without fields',
    (address) => {
      expect(twilio.validateRequest(token, twilioSignature(token, address), address, {})).toBe(true);
    },
  );
});
