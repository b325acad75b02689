import { ref, Type, time } from './types.js';

const record = (name: string, description: string) =>
  Type.Unsafe<unknown>({ anyOf: [ref(name), { type: 'null' }], description });

const capsule = Type.Object(
  {
    format: Type.Unsafe<string>({
      type: 'string',
      const: 'trunkline.capsule.1',
      description: 'What this document is.',
    }),
    made_at: time('When it was read.'),
    call: ref('CallDetail'),
    quality_samples: Type.Array(Type.Object({}, { additionalProperties: true }), { description: 'As in `/quality`.' }),
    sip_messages: Type.Array(Type.Object({}, { additionalProperties: true }), { description: 'As in `/trace`.' }),
    webhook_deliveries: Type.Array(ref('WebhookDelivery'), { description: 'The newest 100, newest first.' }),
    endpoint: record('Endpoint', 'As it is now, secrets masked; null: it is gone, or there was none.'),
    phone_number: record('PhoneNumber', 'As it is now; null: it is gone.'),
  },
  { $id: 'CallCapsule', additionalProperties: false },
);

export const capsuleSchemas = [capsule];
