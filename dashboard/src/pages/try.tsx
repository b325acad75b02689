/** Call an endpoint or a number from the page, with faults as switches; hear both sides, compare two. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { allEndpoints } from '../api/endpoints';
import { useEvents } from '../api/live';
import { allPages } from '../api/pages';
import { useQuery } from '../api/query';
import type { PageProps } from '../page';
import { Listener } from '../try/listen';
import { type Measure, placeCall, type Report, type SimulatedPlan } from '../try/simulated-call';
import { targetOf, withNumber } from '../try/target';
import { Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { State } from '../ui/state';
import { Brief, brief } from '../ui/text';

type Side = 'a' | 'b';

interface Trial {
  isRunning: boolean;
  /** The record of the call, once it is known. */
  callId: string | null;
  /** Response times of the agent, as they are measured. */
  responses: number[];
  bargeIns: number;
  measure: Measure | null;
  report: Report | null;
  error: Error | null;
}
const noTrial: Trial = {
  isRunning: false,
  callId: null,
  responses: [],
  bargeIns: 0,
  measure: null,
  report: null,
  error: null,
};

interface Faults {
  seconds: number;
  speech: SimulatedPlan['speech'];
  loss: number;
  jitter: number;
  reorder: number;
  duplicate: number;
  codec: string;
  digits: string;
}
const noFaults: Faults = {
  seconds: 12,
  speech: 'talk',
  loss: 0,
  jitter: 0,
  reorder: 0,
  duplicate: 0,
  codec: '',
  digits: '',
};

export function TryIt({ place, me }: PageProps) {
  const numbers = useQuery('numbers', (signal) =>
    allPages((offset) => answerOf(api.GET('/v1/phone-numbers', { params: { query: { limit: 100, offset } }, signal }))),
  );
  const endpoints = useQuery('endpoints', allEndpoints);
  const asked = place.query;
  const [choice, setChoice] = useState<Record<Side, string>>({
    a: asked.get('to') ? `number:${asked.get('to')}` : asked.get('a') ? `endpoint:${asked.get('a')}` : '',
    b: asked.get('b') ? `endpoint:${asked.get('b')}` : '',
  });
  const [faults, setFaults] = useState(noFaults);
  const [audible, setAudible] = useState<Side | null>('a');
  const [trials, setTrials] = useState<Record<Side, Trial>>({ a: noTrial, b: noTrial });
  const running = useRef<AbortController | null>(null);
  const listeners = useRef<Partial<Record<Side, Listener>>>({});
  const meters = useRef<Record<string, HTMLElement | null>>({});
  const callers = useRef<Record<Side, string>>({ a: '', b: '' });
  const ids = useRef<Record<Side, string | null>>({ a: null, b: null });
  useEffect(
    () => () => {
      running.current?.abort();
      for (const listener of Object.values(listeners.current)) listener?.close();
    },
    [],
  );
  for (const side of ['a', 'b'] as const) {
    const listener = listeners.current[side];
    if (listener) listener.isAudible = audible === side;
  }
  const change = (side: Side, more: (before: Trial) => Partial<Trial>) =>
    setTrials((before) => ({ ...before, [side]: { ...before[side], ...more(before[side]) } }));
  useEvents(({ call_id, event_type, event_data }) => {
    for (const side of ['a', 'b'] as const) {
      if (event_type === 'call.initiated' && event_data.from_number === callers.current[side]) {
        ids.current[side] = call_id;
        change(side, () => ({ callId: call_id }));
      }
      if (ids.current[side] !== call_id) continue;
      const { speaker, response_ms } = event_data;
      if (event_type === 'turn.completed' && speaker === 'agent' && typeof response_ms === 'number')
        change(side, ({ responses }) => ({ responses: [...responses, response_ms] }));
      if (event_type === 'barge_in.detected') change(side, ({ bargeIns }) => ({ bargeIns: bargeIns + 1 }));
    }
  });

  const call = async (side: Side, signal: AbortSignal) => {
    const target = targetOf(choice[side]);
    if (!target) return;
    const from = `+1500555${String(Math.floor(Math.random() * 9_000) + 1_000)}`;
    callers.current[side] = from;
    ids.current[side] = null;
    setTrials((before) => ({ ...before, [side]: { ...noTrial, isRunning: true } }));
    const listener = new Listener();
    listeners.current[side] = listener;
    listener.isAudible = audible === side;
    try {
      const report = await withNumber(target, (to) =>
        placeCall(
          {
            ...{ to, from, duration_ms: faults.seconds * 1000, speech: faults.speech },
            ...(faults.loss > 0 && { loss_percent: faults.loss }),
            ...(faults.jitter > 0 && { jitter_ms: faults.jitter }),
            ...(faults.reorder > 0 && { reorder_percent: faults.reorder }),
            ...(faults.duplicate > 0 && { duplicate_percent: faults.duplicate }),
            ...(faults.codec && { codec: faults.codec }),
            ...(faults.digits && { digits: faults.digits }),
          },
          {
            audio(who, samples) {
              const level = listener.play(who, samples);
              const meter = meters.current[`${side} ${who}`];
              if (meter) meter.style.width = `${Math.round(Math.sqrt(level) * 100)}%`;
            },
            measured: (measure) => change(side, () => ({ measure })),
          },
          signal,
        ),
      );
      change(side, () => ({ report }));
    } catch (error) {
      if (!signal.aborted) change(side, () => ({ error: error as Error }));
    } finally {
      change(side, () => ({ isRunning: false }));
      setTimeout(() => listener.close(), 1_000);
      for (const who of ['caller', 'agent']) meters.current[`${side} ${who}`]?.style.removeProperty('width');
    }
  };
  const start = () => {
    const stop = new AbortController();
    running.current = stop;
    void call('a', stop.signal);
    if (choice.b) void call('b', stop.signal);
  };

  if (numbers.error) return <Problem error={numbers.error} onRetry={numbers.reload} />;
  if (!numbers.data || !endpoints.data) return <Loading />;
  if (me.role === 'member' || me.mode === 'test')
    return (
      <>
        <Head title="Try it" />
        <Empty title="The simulator needs a live key of an admin">
          <p>
            {me.mode === 'test' ? 'You are signed in with a test key.' : 'You are a member of this organization.'} Sign
            in with another key to place calls.
          </p>
        </Empty>
      </>
    );
  const isRunning = trials.a.isRunning || trials.b.isRunning;
  const targets: [string, string][] = [
    ...numbers.data.map(({ number, name }): [string, string] => [`number:${number}`, `${number} ${name ?? ''}`]),
    ...endpoints.data.map(({ id, name, type }): [string, string] => [`endpoint:${id}`, `${name} (${type})`]),
  ];
  const select = (side: Side, label: string) => (
    <div class="field">
      <label for={`target-${side}`}>{label}</label>
      <select
        id={`target-${side}`}
        value={choice[side]}
        onChange={(event) => setChoice({ ...choice, [side]: event.currentTarget.value })}
      >
        <option value="">{side === 'a' ? 'Choose…' : 'Nothing: one call only'}</option>
        <optgroup label="Numbers">
          {targets
            .filter(([id]) => id.startsWith('number'))
            .map(([id, name]) => (
              <option key={id} value={id}>
                {brief(name)}
              </option>
            ))}
        </optgroup>
        <optgroup label="Endpoints, by a number made for the trial">
          {targets
            .filter(([id]) => id.startsWith('endpoint'))
            .map(([id, name]) => (
              <option key={id} value={id}>
                {brief(name)}
              </option>
            ))}
        </optgroup>
      </select>
    </div>
  );
  const slider = (
    name: 'seconds' | 'loss' | 'jitter' | 'reorder' | 'duplicate',
    label: string,
    unit: string,
    most: number,
    least = 0,
  ) => (
    <div class="field">
      <label for={`fault-${name}`}>
        {label}: {faults[name]} {unit}
      </label>
      <input
        id={`fault-${name}`}
        type="range"
        min={least}
        max={most}
        value={faults[name]}
        onInput={(event) => setFaults({ ...faults, [name]: Number(event.currentTarget.value) })}
      />
    </div>
  );
  return (
    <>
      <Head
        title="Try it"
        under="A simulated phone calls over real SIP and RTP. The calls have records like any other."
      >
        {isRunning ? (
          <button type="button" class="danger" onClick={() => running.current?.abort()}>
            Hang up
          </button>
        ) : (
          <button type="button" class="first" disabled={choice.a === ''} onClick={start}>
            {choice.b ? 'Call both' : 'Call'}
          </button>
        )}
      </Head>
      <div class="columns">
        <Card title="Whom to call">
          <div class="stack">
            {select('a', 'A')}
            {select('b', 'B, to compare')}
          </div>
        </Card>
        <Card
          title="How the caller sounds"
          aside={
            <button type="button" class="link" onClick={() => setFaults(noFaults)}>
              No faults
            </button>
          }
        >
          <div class="faults">
            <div class="field">
              <label for="speech">The caller</label>
              <select
                id="speech"
                value={faults.speech}
                onChange={(event) => setFaults({ ...faults, speech: event.currentTarget.value as Faults['speech'] })}
              >
                <option value="talk">asks questions and listens</option>
                <option value="tone">sends a tone (measures an echo)</option>
                <option value="silence">is silent</option>
                <option value="noise">is silent in a noisy street</option>
              </select>
            </div>
            <div class="field">
              <label for="codec">Codec</label>
              <select
                id="codec"
                value={faults.codec}
                onChange={(event) => setFaults({ ...faults, codec: event.currentTarget.value })}
              >
                <option value="">PCMU, PCMA</option>
                <option value="G722">G722 only</option>
                <option value="OPUS">OPUS only</option>
              </select>
            </div>
            {slider('seconds', 'Length', 's', 60, 2)}
            {slider('loss', 'Packets lost', '%', 30)}
            {slider('jitter', 'Jitter', 'ms', 200)}
            {slider('reorder', 'Packets reordered', '%', 30)}
            {slider('duplicate', 'Packets twice', '%', 30)}
            <div class="field">
              <label for="digits">Keys to press</label>
              <input
                id="digits"
                value={faults.digits}
                placeholder="1w23#"
                onInput={(event) => setFaults({ ...faults, digits: event.currentTarget.value.trim() })}
              />
            </div>
          </div>
        </Card>
      </div>
      <div class="columns">
        {(['a', 'b'] as const)
          .filter((side) => side === 'a' || choice.b || trials.b.report)
          .map((side) => (
            <Card
              key={side}
              title={`${side.toUpperCase()}: ${brief(targets.find(([id]) => id === choice[side])?.[1] ?? 'nothing chosen', 60)}`}
              aside={
                <label class="check">
                  <input type="radio" name="audible" checked={audible === side} onChange={() => setAudible(side)} />
                  <span>Listen</span>
                </label>
              }
            >
              <TrialView trial={trials[side]} side={side} meters={meters.current} />
            </Card>
          ))}
      </div>
      {(trials.a.report || trials.b.report) && (
        <Card title="Result">
          <Comparison a={trials.a} b={choice.b ? trials.b : null} />
        </Card>
      )}
    </>
  );
}

function TrialView({ trial, side, meters }: { trial: Trial; side: Side; meters: Record<string, HTMLElement | null> }) {
  const { isRunning, callId, responses, measure, report, error } = trial;
  const last = responses.at(-1);
  return (
    <div class="stack">
      {(['caller', 'agent'] as const).map((who) => (
        <div class="lane" key={who}>
          <small>{who === 'caller' ? 'Caller' : 'Agent'}</small>
          <div class="track">
            <i
              class="meter"
              data-speaker={who}
              ref={(element) => {
                meters[`${side} ${who}`] = element;
              }}
            />
          </div>
        </div>
      ))}
      <p class="row" role="status">
        {isRunning && <State of="in_progress" word={measure ? 'Talking' : 'Calling'} />}
        {report && <State of={report.ok ? 'ok' : 'warning'} word={report.ok ? 'Went well' : 'Had problems'} />}
        {last !== undefined && <span>last response {last} ms</span>}
        {measure && (
          <span class="soft">
            {measure.received} packets heard, {measure.lost} lost, jitter{' '}
            {measure.jitter_ms === null ? '–' : Math.round(measure.jitter_ms)} ms
          </span>
        )}
        {callId && <a href={`#/calls/${callId}`}>Its record</a>}
        {!isRunning && !report && !error && <span class="soft">Not called yet.</span>}
      </p>
      {error && <Problem error={error} />}
      {report && report.problems.length > 0 && (
        <ul>
          {report.problems.map((problem) => (
            <li key={problem}>
              • <Brief text={problem} limit={200} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null;
}

/** Both trials side by side; the better figure of each row is in bold. */
function Comparison({ a, b }: { a: Trial; b: Trial | null }) {
  const rows: [name: string, of: (trial: Trial) => number | null, unit: string, better: 'less' | 'more'][] = [
    ['Set-up', ({ report }) => report?.setup_ms ?? null, 'ms', 'less'],
    ['First sound of the agent', ({ report }) => report?.answer_to_first_sound_ms ?? null, 'ms', 'less'],
    ['Turn response, median', ({ responses }) => median(responses), 'ms', 'less'],
    ['Turn response, worst', ({ responses }) => (responses.length > 0 ? Math.max(...responses) : null), 'ms', 'less'],
    ['Echo there and back', ({ report }) => report?.round_trip?.median_ms ?? null, 'ms', 'less'],
    ['MOS heard by the caller', ({ report }) => report?.received.mos ?? null, '', 'more'],
    ['Packets lost to the caller', ({ report }) => report?.received.loss_percent ?? null, '%', 'less'],
    ['Barge-ins', ({ report, bargeIns }) => (report ? bargeIns : null), '', 'less'],
  ];
  const shown = (value: number | null, unit: string) =>
    value === null ? '–' : `${unit === 'ms' ? Math.round(value) : Number(value.toFixed(2))} ${unit}`;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Figure</th>
          <th scope="col" class="right">
            A
          </th>
          {b && (
            <th scope="col" class="right">
              B
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, of, unit, better]) => {
          const [first, second] = [of(a), b ? of(b) : null];
          const isBetter = (x: number | null, y: number | null) =>
            x !== null && y !== null && shown(x, unit) !== shown(y, unit) && (better === 'less' ? x < y : x > y);
          return (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class="right">
                {isBetter(first, second) ? <strong>{shown(first, unit)}</strong> : shown(first, unit)}
              </td>
              {b && (
                <td class="right">
                  {isBetter(second, first) ? <strong>{shown(second, unit)}</strong> : shown(second, unit)}
                </td>
              )}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
