/** Telnyx: TeXML, which is TwiML with elements of its own, and Ed25519 signatures. */
import { telnyxHeaders } from '../signature.js';
import { parseTwiml } from '../twiml.js';
import type { XmlDialect } from '../xml-dialect.js';
import { type Dialect, xmlTypes } from './dialect.js';

/** https://developers.telnyx.com/docs/voice/programmable-voice/texml-verbs */
export const texml: XmlDialect = {
  streams: 'telnyx',
  actionWhenAbsent: 'document',
  elements: {
    Gather: { attributes: { maxDigits: 'numDigits', useEnhanced: 'enhanced' } },
    Transcription: {
      attributes: {
        language: 'languageCode',
        transcriptionCallback: 'statusCallbackUrl',
        transcriptionCallbackMethod: 'statusCallbackMethod',
        transcriptionTracks: (value) => ({ track: value.includes('outbound') ? 'both_tracks' : 'inbound_track' }),
      },
      defaults: { track: 'inbound_track' },
    },
    Stream: {
      attributes: {
        bidirectionalCodec: (value, { bidirectionalSamplingRate }) => ({
          audio: `${value} ${bidirectionalSamplingRate ?? ''}`,
        }),
        // What the application sends is always read as RTP payloads, which is Telnyx' mode "rtp".
        bidirectionalMode: (value) => (value === 'rtp' ? {} : null),
        bidirectionalSamplingRate: () => ({}),
      },
    },
  },
};

export const telnyx: Dialect = {
  firstMethod: 'POST',
  body: 'form',
  userAgent: 'Telnyx-Webhooks Trunkline',
  accept: 'application/xml, text/xml',
  fields: (fields) => ({
    ...fields,
    ...(fields.CallSid === undefined ? {} : { CallSidLegacy: fields.CallSid, CallControlId: fields.CallSid }),
    ...(fields.CallerName === undefined ? {} : { CallerId: fields.CallerName }),
  }),
  sign: ({ secret }, { body = '' }) => telnyxHeaders(secret, Date.now(), body),
  signStream: ({ secret }) => telnyxHeaders(secret, Date.now(), ''),
  read: (text, type, { url }) => (xmlTypes.has(type) ? parseTwiml(text, url, texml) : undefined),
  emptyAnswer: 'hangs_up',
};
