/** A call of the carrier simulator, followed while it runs. */
import { problemOf, rawFetch } from '../api/client';
import { samplesOf } from './listen';

export interface SimulatedPlan {
  to: string;
  from: string;
  duration_ms: number;
  speech: 'tone' | 'talk' | 'silence' | 'noise';
  loss_percent?: number;
  jitter_ms?: number;
  reorder_percent?: number;
  duplicate_percent?: number;
  codec?: string;
  digits?: string;
}

export interface Measure {
  received: number;
  lost: number;
  jitter_ms: number | null;
  rtt_ms: number | null;
}

export interface Report {
  ok: boolean;
  problems: string[];
  answered: boolean;
  cause: string;
  sip_status: number | null;
  setup_ms: number | null;
  answer_to_first_sound_ms: number | null;
  duration_ms: number;
  codec: string | null;
  received: {
    packets: number;
    lost: number;
    loss_percent: number | null;
    jitter_ms: number | null;
    mos: number | null;
  };
  round_trip: { median_ms: number; worst_ms: number } | null;
}

/** Resolves to the report at the end of the call. Throws `ApiProblem`; `signal` hangs up. */
export async function placeCall(
  plan: SimulatedPlan,
  heard: {
    audio(side: 'caller' | 'agent', samples: Float32Array<ArrayBuffer>): void;
    measured(measure: Measure): void;
  },
  signal: AbortSignal,
): Promise<Report> {
  const response = await rawFetch('/v1/simulator/calls', {
    method: 'POST',
    signal,
    headers: { accept: 'text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify(plan),
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (reader) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/m.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (event === undefined || data === undefined) continue;
      const told: unknown = JSON.parse(data);
      if (event === 'audio') {
        const { caller, agent } = told as { caller: string; agent: string };
        heard.audio('caller', samplesOf(caller));
        heard.audio('agent', samplesOf(agent));
      } else if (event === 'measure') heard.measured(told as Measure);
      else if (event === 'report') return told as Report;
      else throw problemOf(response, told);
    }
  }
  throw new Error('The call was cut off before its report. Check that the server still runs.');
}
