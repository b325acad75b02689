import { ref, Type, time } from './types.js';

const record = (name: string, description: string) =>
  Type.Unsafe<unknown>({ anyOf: [ref(name), { type: 'null' }], description });

const capsule = Type.Object(
  {
    format: Type.Unsafe<string>({
      type: 'string',
      const: 'trunkline.capsule.1',
      description: 'The format of this document and its version.',
    }),
    made_at: time('When the document was created.'),
    call: ref('CallDetail'),
    quality_samples: Type.Array(Type.Object({}, { additionalProperties: true }), {
      description: 'The samples, as in `/quality`.',
    }),
    sip_messages: Type.Array(Type.Object({}, { additionalProperties: true }), {
      description: 'The SIP messages, as in `/trace`.',
    }),
    webhook_deliveries: Type.Array(ref('WebhookDelivery'), { description: 'The newest 100 deliveries, newest first.' }),
    endpoint: record(
      'Endpoint',
      'The endpoint in its current state, with secrets masked; null if it was deleted or the call had none.',
    ),
    phone_number: record('PhoneNumber', 'The phone number in its current state; null if it was deleted.'),
  },
  { $id: 'CallCapsule', additionalProperties: false },
);

export const capsuleSchemas = [capsule];
