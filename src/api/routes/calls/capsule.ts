import { notFound } from '../../errors.js';
import {
  presentCallDetail,
  presentEndpoint,
  presentPhoneNumber,
  presentWebhookDelivery,
} from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { idParams, ref } from '../../schemas/types.js';
import { type CallRoutesOptions, sipMessages } from './calls.js';

const mostDeliveries = 100;

/** All records of one call in one document, to archive or to attach to a fault report. */
export function capsuleRoutes(options: CallRoutesOptions): Route[] {
  const { store, recordingUrls, now } = options;
  return [
    route({
      method: 'GET',
      path: '/v1/calls/:id/capsule',
      operationId: 'getCallCapsule',
      tag: 'Calls',
      summary: 'Get all records of a call in one document',
      description:
        'The call detail, its quality samples, SIP messages and webhook deliveries, and its endpoint and number in their current state; without secrets and without the audio, whose URL is `call.recording_url`.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The document, as a file to save.', schema: ref('CallCapsule') },
      handle: async ({ params, caller, reply }) => {
        const { scope } = caller;
        const call = await store.records.record(scope, params.id.toLowerCase());
        if (!call) throw notFound('Call');
        const deliveries = await store.webhookDeliveries.list(
          scope,
          { callId: call.id },
          { limit: mostDeliveries, offset: 0 },
        );
        const endpoint = call.endpointId === null ? undefined : await store.endpoints.get(scope, call.endpointId);
        const number = await store.phoneNumbers.get(scope, call.phoneNumberId);
        reply.header('content-disposition', `attachment; filename="${call.id}.capsule.json"`);
        return {
          format: 'trunkline.capsule.1',
          made_at: new Date(now()).toISOString(),
          call: JSON.parse(presentCallDetail(call, recordingUrls)) as object,
          quality_samples: (await store.records.qualitySamples(scope, call.id)) ?? [],
          sip_messages: await sipMessages(options, scope, call),
          webhook_deliveries: deliveries.data.map(presentWebhookDelivery),
          endpoint: endpoint ? presentEndpoint(endpoint) : null,
          phone_number: number ? presentPhoneNumber(number) : null,
        };
      },
    }),
  ];
}
