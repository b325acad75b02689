import type { Store } from '../../../store/store.js';
import { ApiError, notFound } from '../../errors.js';
import { phoneNumberOf } from '../../request/phone-number.js';
import { type Route, route } from '../../route.js';
import { simulatedCallBody } from '../../schemas/simulator.js';
import { ref } from '../../schemas/types.js';
import { acceptsEvents, SimulatorStream } from './simulator-stream.js';

/** The parameters of a call from a phone of the carrier simulator. */
export interface SimulatedCallPlan {
  to: string;
  from: string;
  durationMs: number;
  ringTimeoutMs: number;
  codecs?: ('PCMU' | 'PCMA' | 'G722' | 'OPUS')[];
  digits?: string;
  speech: 'tone' | 'talk' | 'silence' | 'noise';
  /** Hears the call while it runs; its samples are reused. */
  ear?: SimulatorListener;
  impairments: {
    lossPercent?: number;
    jitterMs?: number;
    reorderPercent?: number;
    duplicatePercent?: number;
    seed?: number;
  };
}

/** As `PhoneRtpListener` of the simulator. */
export interface SimulatorListener {
  audio(side: 'caller' | 'agent', samples: Int16Array): void;
  measured(figures: { received: number; lost: number; jitterMs: number | null; rttMs: number | null }): void;
}

/** Places the call and resolves after its end to the caller's measurements; `signal` hangs up. */
export type SimulateCall = (plan: SimulatedCallPlan, signal: AbortSignal) => Promise<object>;

export interface SimulatorRoutesOptions {
  store: Store;
  /** Absent if there is no simulator. */
  simulateCall?: SimulateCall;
}

/** The maximum number of concurrent calls; each has its own SIP stack and send clock on this machine. */
const callsAtOnce = 4;

export function simulatorRoutes({ store, simulateCall }: SimulatorRoutesOptions): Route[] {
  let running = 0;
  return [
    route({
      method: 'POST',
      path: '/v1/simulator/calls',
      operationId: 'simulateCall',
      tag: 'Calls',
      summary: 'Place a call from the carrier simulator',
      description:
        "A simulated phone calls one of the organization's numbers over SIP and RTP, with the requested faults, talks, hangs up, and then returns its measurements. The call has a record like any other. At most four run at once; live keys only. Closing the connection hangs up.",
      access: 'admin',
      body: simulatedCallBody,
      answer: {
        status: 200,
        description:
          'The measurements of the caller. With `Accept: text/event-stream`: Server-Sent Events while the call runs. `audio`: what both sides said since the last one, `{caller, agent}`, each base64 of signed 16-bit little-endian samples at 8 kHz; `measure`: `{received, lost, jitter_ms, rtt_ms}`, once a second; at last `report` with the measurements, or `error` with an error body.',
        schema: ref('SimulatedCall'),
        alsoAs: ['text/event-stream'],
      },
      errors: ['INVALID_PHONE_NUMBER', 'NOT_FOUND', 'CONCURRENCY_LIMIT_EXCEEDED'],
      handle: async ({ body, caller, request, reply }) => {
        const to = phoneNumberOf(body.to, 'to');
        const from = phoneNumberOf(body.from, 'from');
        if (caller.mode !== 'live') throw new ApiError('FORBIDDEN', 'The simulator requires a live key');
        if (store.phoneNumbers.findDialled(to, 'live')?.organizationId !== caller.scope.organizationId)
          throw notFound('Phone number');
        if (!simulateCall) throw new ApiError('SERVICE_UNAVAILABLE', 'No simulator is available');
        if (running >= callsAtOnce)
          throw new ApiError(
            'CONCURRENCY_LIMIT_EXCEEDED',
            'The simulator has reached its limit of concurrent calls',
            undefined,
            {
              'retry-after': '5',
            },
          );
        const gone = new AbortController();
        const hangUp = () => gone.abort();
        reply.raw.once('close', hangUp);
        running += 1;
        try {
          const { loss_percent, jitter_ms, reorder_percent, duplicate_percent, seed } = body;
          const plan: SimulatedCallPlan = {
            to,
            from,
            durationMs: body.duration_ms,
            ringTimeoutMs: body.ring_timeout_ms,
            ...(body.codec === undefined ? {} : { codecs: [body.codec] }),
            ...(body.digits === undefined ? {} : { digits: body.digits.toUpperCase().replaceAll('W', 'w') }),
            speech: body.speech,
            impairments: {
              lossPercent: loss_percent,
              jitterMs: jitter_ms,
              reorderPercent: reorder_percent,
              duplicatePercent: duplicate_percent,
              seed,
            },
          };
          if (!acceptsEvents(request)) return snakeCase(await simulateCall(plan, gone.signal));
          const stream = new SimulatorStream(reply);
          try {
            stream.send('report', snakeCase(await simulateCall({ ...plan, ear: stream }, gone.signal)));
          } catch (error) {
            request.log.error({ err: error }, 'a simulated call failed');
            stream.send('error', new ApiError('INTERNAL_ERROR').body());
          } finally {
            stream.end();
          }
          return reply;
        } finally {
          running -= 1;
          reply.raw.off('close', hangUp);
        }
      },
    }),
  ];
}

/** Converts field names to the snake case of the API, at every depth. */
function snakeCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCase);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      snakeCase(part),
    ]),
  );
}
