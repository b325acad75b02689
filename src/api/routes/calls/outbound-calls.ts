import type { OutboundCalls } from '../../../call/core/outbound-request.js';
import { traceContextOf } from '../../../call/core/trace-context.js';
import type { Store } from '../../../store/store.js';
import { invalid } from '../../errors.js';
import { presentCall } from '../../present/present.js';
import type { RecordingUrls } from '../../recordings/recording-urls.js';
import { calledAddressOf } from '../../request/called-address.js';
import { phoneNumberOf } from '../../request/phone-number.js';
import { type Route, route } from '../../route.js';
import type { OutboundRules } from '../../rules/outbound-rules.js';
import { startOutbound } from '../../rules/start-outbound.js';
import { outboundCallBody } from '../../schemas/outbound-calls.js';
import { ref } from '../../schemas/types.js';

export interface OutboundCallRoutesOptions {
  store: Store;
  recordingUrls: RecordingUrls;
  /** If absent, no call can be placed. */
  outboundCalls?: OutboundCalls;
  rules: OutboundRules;
  allowPrivateTargets: boolean;
  now: () => number;
}

const maxMetadataBytes = 8_192;

export function outboundCallRoutes({
  store,
  recordingUrls,
  outboundCalls,
  rules,
  allowPrivateTargets,
  now,
}: OutboundCallRoutesOptions): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/outbound-calls',
      operationId: 'createOutboundCall',
      tag: 'Calls',
      summary: 'Start an outbound call',
      description:
        'Calls a number, a registered phone or a SIP address and, once it answers, connects it with an endpoint. The response is the call record, `in_progress`; the events of the call report its progress. A rejected request creates no record.',
      access: 'member',
      body: outboundCallBody,
      answer: { status: 201, description: 'The call, `in_progress`. `Location` is its URL.', schema: ref('Call') },
      errors: [
        'INVALID_PHONE_NUMBER',
        'NOT_FOUND',
        'CALLER_ID_NOT_ALLOWED',
        'DESTINATION_NOT_ALLOWED',
        'ENDPOINT_INACTIVE',
        'INSUFFICIENT_BALANCE',
        'SPEND_LIMIT_EXCEEDED',
        'CONCURRENCY_LIMIT_EXCEEDED',
        'CALLS_PER_SECOND_EXCEEDED',
        'NO_TRUNK_AVAILABLE',
        'SHUTTING_DOWN',
      ],
      handle: async ({ body, request, caller, reply, afterwards, within }) => {
        const address = calledAddressOf(body.to_number, 'to_number', allowPrivateTargets);
        const toNumber = address ?? phoneNumberOf(body.to_number, 'to_number');
        const { sip_username: username, sip_password: password = '' } = body;
        if (username !== undefined && !address?.startsWith('sip'))
          throw invalid({ path: 'sip_username', message: 'requires a SIP address in to_number' });
        if (username === undefined && body.sip_password !== undefined)
          throw invalid({ path: 'sip_password', message: 'requires sip_username' });
        const fromNumber = phoneNumberOf(body.from_number, 'from_number');
        const metadata = body.metadata ?? {};
        if (Buffer.byteLength(JSON.stringify(metadata)) > maxMetadataBytes)
          throw invalid({ path: 'metadata', message: 'must be at most 8 KiB of JSON' });
        if (body.machine_detection === 'off')
          for (const path of ['on_machine', 'on_screening', 'on_operator', 'on_fax', 'wait_for_detection'] as const)
            if (body[path] !== undefined && body[path] !== 'talk' && body[path] !== false)
              throw invalid({ path, message: 'requires machine_detection' });
        const requestedBy = traceContextOf(request.headers.traceparent);
        const { callId, start } = await startOutbound(
          { store, now, ...(outboundCalls && { outboundCalls }) },
          rules,
          caller,
          {
            toNumber,
            fromNumber,
            ...(username !== undefined && { sipAuth: { username, password } }),
            endpointId: body.endpoint_id.toLowerCase(),
            ringTimeoutMs: body.ring_timeout * 1000,
            maxDurationMs: body.max_duration * 1000,
            ...(body.machine_detection !== undefined && { machineDetection: body.machine_detection }),
            ...(body.wait_for_detection !== undefined && { waitsForMachine: body.wait_for_detection }),
            ...(body.on_machine !== undefined && { onMachine: body.on_machine }),
            ...(body.on_screening !== undefined && { onScreening: body.on_screening }),
            ...(body.on_operator !== undefined && { onOperator: body.on_operator }),
            ...(body.on_fax !== undefined && { onFax: body.on_fax }),
            ...(body.press_keys !== undefined && { pressKeys: body.press_keys }),
            metadata,
            ...(requestedBy && { requestedBy }),
            ...(body.record !== undefined && { record: body.record }),
          },
          within,
        );
        afterwards(start);
        const call = await store.records.get(caller.scope, callId, within);
        if (!call) throw new Error('the started call has no record');
        reply.header('location', `/v1/calls/${call.id}`);
        return presentCall(call, recordingUrls);
      },
    }),
  ];
}
