/** One call: what happened, why, and how it sounded. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { useEvents } from '../api/live';
import { useQuery } from '../api/query';
import type { CallDetail, Explanation } from '../api/types';
import { CallActions } from '../call/actions';
import { Cost } from '../call/cost';
import { Ladder, type SipMessage } from '../call/ladder';
import { LiveNow } from '../call/live';
import { Quality } from '../call/quality';
import { Recording } from '../call/recording';
import { Routing } from '../call/routing';
import { Timeline } from '../call/timeline';
import { Transcript } from '../call/transcript';
import { turnsOf } from '../call/turn-list';
import { Turns } from '../call/turns';
import type { PageProps } from '../page';
import { Card, Copy, Head, Loading, Problem } from '../ui/parts';
import { Hop, State } from '../ui/state';
import { Brief, Outside } from '../ui/text';
import { duration, money, Since, Time } from '../ui/time';

const quietMs = 300;

export function CallPage({ place, me }: PageProps) {
  const id = place.path[1] ?? '';
  const path = useMemo(() => ({ params: { path: { id } } }), [id]);
  const call = useQuery(`call ${id}`, (signal) => answerOf(api.GET('/v1/calls/{id}', { ...path, signal })));
  const isLive = call.data?.status === 'in_progress';
  const explanation = useQuery(
    `explanation ${id}`,
    (signal) => answerOf(api.GET('/v1/calls/{id}/explanation', { ...path, signal })),
    isLive ? 'live' : '',
  );
  // Quality samples and the stored trace come with the end; the live trace grows with the call.
  const trace = useQuery(
    `trace ${id}`,
    (signal) => answerOf(api.GET('/v1/calls/{id}/trace', { ...path, signal })),
    isLive ? String(call.data?.events.length) : '',
  );
  const quality = useQuery(
    `quality ${id}`,
    (signal) => answerOf(api.GET('/v1/calls/{id}/quality', { ...path, signal })),
    isLive ? 'live' : '',
  );
  useReloadOf(id, call.reload);
  const [seekMs, setSeek] = useState<{ atMs: number } | null>(null);
  const [playing, setPlaying] = useState<number | null>(null);

  if (call.error && !call.data)
    return (
      <>
        <Head title="Call" under={<a href="#/calls">All calls</a>} />
        <Problem error={call.error} onRetry={call.reload} />
      </>
    );
  if (!call.data) return <Loading />;
  const { data } = call;
  const hasWords = data.events.some(({ event_type }) => event_type === 'transcript.final');
  return (
    <>
      <Head
        title={
          <>
            <Brief text={data.from_number} limit={60} /> → <Brief text={data.to_number} limit={60} />
          </>
        }
        under={
          <>
            <State of={data.status} /> · {data.direction} · <Time at={data.created_at} form="whole" />
          </>
        }
      >
        <CallActions call={data} me={me} onChange={call.reload} />
      </Head>
      {isLive ? <LiveNow call={data} /> : explanation.data && <Sentence explanation={explanation.data} />}
      <Figures call={data} />
      {data.quality_metrics.audio_delay?.blame && (
        <div class="notice" data-tone="warn">
          <Outside text={data.quality_metrics.audio_delay.blame} limit={400} />
        </div>
      )}
      <div class="wide-narrow">
        <div class="stack">
          {data.recording_url && (
            <Card title="Recording and transcript">
              <Recording call={data} seek={seekMs} onTime={setPlaying} />
            </Card>
          )}
          <Card title="Turns">
            <Turns call={data} onSeek={data.recording_url ? (atMs) => setSeek({ atMs }) : undefined} />
          </Card>
          {!data.recording_url && (data.transcript || hasWords) && (
            <Card title="Transcript">
              {hasWords ? (
                <Transcript call={data} nowMs={null} />
              ) : (
                <pre>
                  <Outside text={data.transcript} limit={4_000} />
                </pre>
              )}
            </Card>
          )}
          <Card title="Quality and delay over time">
            {quality.data ? <Quality samples={quality.data.samples} call={data} /> : <Loading />}
          </Card>
          <Card title="SIP messages">
            {trace.data ? (
              <Ladder messages={(trace.data as { messages: SipMessage[] }).messages} />
            ) : trace.error ? (
              <Problem error={trace.error} />
            ) : (
              <Loading />
            )}
          </Card>
        </div>
        <div class="stack">
          <Card title="Events">
            <Timeline
              call={data}
              playing={playing}
              onSeek={data.recording_url ? (atMs) => setSeek({ atMs }) : undefined}
            />
          </Card>
          <Card title="Routing decision">
            <Routing call={data} />
          </Card>
          <Card title="Cost">
            <Cost call={data} me={me} />
          </Card>
          <Card title="Record">
            <Facts call={data} />
          </Card>
        </div>
      </div>
    </>
  );
}

function useReloadOf(id: string, reload: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEvents(({ call_id }) => {
    if (call_id !== id || timer.current !== null) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload();
    }, quietMs);
  });
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
    },
    [],
  );
}

function Sentence({ explanation }: { explanation: Explanation }) {
  return (
    <div class="notice" data-tone={explanation.hop === null ? 'good' : 'bad'}>
      <p class="row">
        <Hop of={explanation.hop} />
        <strong>
          <Outside text={explanation.summary} limit={600} />
        </strong>
      </p>
      {explanation.advice && <p>{explanation.advice}</p>}
    </div>
  );
}

function Figures({ call }: { call: CallDetail }) {
  const { quality_metrics: quality, timings } = call;
  const responses = turnsOf(call).flatMap(({ speaker, response_ms }) =>
    speaker === 'agent' && response_ms !== null ? [response_ms] : [],
  );
  responses.sort((a, b) => a - b);
  const median = responses[Math.floor((responses.length - 1) / 2)];
  const delay = quality.audio_delay;
  const addedMs = (delay?.gateway_uplink?.p50_ms ?? 0) + (delay?.gateway_playout?.p50_ms ?? 0);
  const figures: [string, preact.ComponentChildren, string?][] = [
    [
      'Length',
      call.status === 'in_progress' ? <Since from={call.answered_at ?? call.created_at} /> : duration(call.duration),
    ],
    [
      'Set-up',
      call.latency_ms > 0 ? `${call.latency_ms} ms` : '–',
      timings.answer_to_first_audio_ms === undefined
        ? undefined
        : `agent heard after ${timings.answer_to_first_audio_ms} ms`,
    ],
    [
      'Turn response',
      median === undefined ? '–' : `${median} ms`,
      responses.length > 0 ? `median of ${responses.length}` : undefined,
    ],
    ...(delay
      ? [['Audio delay', `${Math.round(addedMs)} ms`, 'median, added by this server'] as [string, string, string]]
      : []),
    [
      'MOS',
      quality.mos === undefined ? '–' : quality.mos.toFixed(2),
      quality.packet_loss === undefined
        ? undefined
        : `${quality.packet_loss} % lost, jitter ${quality.jitter_ms ?? '–'} ms`,
    ],
    ['Cost', call.cost > 0 ? money(call.cost) : '–'],
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          {more && <dd class="more">{more}</dd>}
        </div>
      ))}
    </dl>
  );
}

function Facts({ call }: { call: CallDetail }) {
  return (
    <dl class="facts">
      <dt>Call id</dt>
      <dd>
        <code>{call.id}</code> <Copy text={call.id} />
      </dd>
      <dt>SIP Call-ID</dt>
      <dd class="mono">
        <Outside text={call.sip_call_id} />
      </dd>
      <dt>Answered</dt>
      <dd>
        <Time at={call.answered_at} form="ms" />
      </dd>
      <dt>Ended</dt>
      <dd>
        <Time at={call.completed_at} form="ms" />
      </dd>
      <dt>Cause</dt>
      <dd>
        {call.hangup_cause ?? '–'}
        {call.hangup_source && `, by ${call.hangup_source}`}
      </dd>
      {call.metadata != null && (
        <>
          <dt>Metadata</dt>
          <dd class="mono">
            <Outside text={JSON.stringify(call.metadata)} limit={400} />
          </dd>
        </>
      )}
    </dl>
  );
}
