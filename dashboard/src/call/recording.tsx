/** The recording: a waveform of both sides, in step with the transcript; a click on a word plays it. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type WaveSurfer from 'wavesurfer.js';
import { rawFetch } from '../api/client';
import type { CallDetail } from '../api/types';
import { colour } from '../charts/uplot';
import { Loading, Problem } from '../ui/parts';
import { visible } from '../ui/text';
import { duration } from '../ui/time';

export interface SpokenWord {
  text: string;
  /** Milliseconds from the start of the recording. */
  atMs: number;
}
export interface Utterance {
  speaker: 'caller' | 'agent';
  atMs: number;
  words: SpokenWord[];
}

/** A larger file is not decoded in the page; it can be downloaded. */
const largestBytes = 80_000_000;

/**
 * The transcript with a time for each word. The record has the time of each turn; its words are spread over it by their length. An utterance
 * without a turn of its own begins where its event was written.
 */
export function utterances(call: Pick<CallDetail, 'events' | 'turns' | 'answered_at' | 'created_at'>): Utterance[] {
  const started = call.events.find(({ event_type }) => event_type === 'recording.started');
  const beginMs = Date.parse(started?.created_at ?? call.answered_at ?? call.created_at);
  const free = call.turns.map((turn) => ({ ...turn, startMs: Date.parse(turn.started_at), isTaken: false }));
  return call.events.flatMap(({ event_type, event_data, created_at }) => {
    if (event_type !== 'transcript.final' || typeof event_data.text !== 'string') return [];
    const speaker = event_data.speaker === 'agent' ? 'agent' : 'caller';
    const writtenMs = Date.parse(created_at);
    const turn = free.find((each) => each.speaker === speaker && !each.isTaken && each.startMs <= writtenMs);
    if (turn) turn.isTaken = true;
    const startMs = (turn?.startMs ?? writtenMs) - beginMs;
    const length = turn?.duration_ms ?? 0;
    const words = event_data.text.split(/\s+/).filter((word) => word !== '');
    const characters = words.reduce((sum, word) => sum + word.length + 1, 0);
    let before = 0;
    return [
      {
        speaker,
        atMs: Math.max(0, startMs),
        words: words.map((text) => {
          const atMs = Math.max(0, startMs + (length * before) / Math.max(1, characters));
          before += text.length + 1;
          return { text, atMs };
        }),
      },
    ];
  });
}

/** At most this often others hear where the recording is. */
const tellEveryMs = 250;

export function Recording({
  call,
  seek,
  onTime,
}: {
  call: CallDetail;
  seek: { atMs: number } | null;
  /** Gets the moment that is heard, in milliseconds since 1970; null when nothing plays. */
  onTime: (atMs: number | null) => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const player = useRef<WaveSurfer | null>(null);
  const [state, setState] = useState<{
    isReady: boolean;
    isPlaying: boolean;
    atSec: number;
    lengthSec: number;
    error: Error | null;
  }>({
    ...{ isReady: false, isPlaying: false, atSec: 0, lengthSec: 0, error: null },
  });
  const spoken = useMemo(() => utterances(call), [call]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let isGone = false;
    let surfer: WaveSurfer | null = null;
    const open = async () => {
      const [{ default: Surfer }, response] = await Promise.all([
        import('wavesurfer.js'),
        rawFetch(`/v1/calls/${call.id}/recording`),
      ]);
      if (Number(response.headers.get('content-length')) > largestBytes)
        throw new Error('The recording is too long to be shown here. Download it instead.');
      const file = await response.blob();
      if (isGone) return;
      const common = { progressColor: colour('ink'), overlay: false };
      surfer = Surfer.create({
        container: element,
        height: 56,
        cursorColor: colour('bad'),
        cspNonce: document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content,
        splitChannels: [
          { ...common, waveColor: colour('caller') },
          { ...common, waveColor: colour('agent') },
        ],
      });
      player.current = surfer;
      surfer.on('ready', (lengthSec) => setState((before) => ({ ...before, isReady: true, lengthSec })));
      surfer.on('timeupdate', (atSec) => setState((before) => ({ ...before, atSec })));
      surfer.on('play', () => setState((before) => ({ ...before, isPlaying: true })));
      surfer.on('pause', () => setState((before) => ({ ...before, isPlaying: false })));
      surfer.on('finish', () => setState((before) => ({ ...before, isPlaying: false })));
      surfer.on('error', (error) => setState((before) => ({ ...before, error })));
      await surfer.loadBlob(file);
    };
    open().catch((error: Error) => !isGone && setState((before) => ({ ...before, error })));
    return () => {
      isGone = true;
      player.current = null;
      surfer?.destroy();
    };
  }, [call.id]);
  const playFrom = (atMs: number) => {
    player.current?.setTime(atMs / 1000);
    void player.current?.play();
  };
  const started = call.events.find(({ event_type }) => event_type === 'recording.started');
  const beginMs = Date.parse(started?.created_at ?? call.answered_at ?? call.created_at);
  const { isReady, isPlaying, atSec, lengthSec } = state;
  const tick = isPlaying ? Math.floor((atSec * 1000) / tellEveryMs) : null;
  useEffect(() => onTime(tick === null ? null : beginMs + atSec * 1000), [tick, beginMs]);
  useEffect(() => {
    if (seek) playFrom(Math.max(0, seek.atMs - beginMs));
  }, [seek]);

  if (state.error) return <Problem error={state.error} />;
  return (
    <div class="stack">
      <div class="waveform" ref={place} aria-hidden="true" />
      {!isReady && <Loading />}
      <div class="row">
        <button type="button" class="first" disabled={!isReady} onClick={() => player.current?.playPause()}>
          {isPlaying ? 'Pause' : 'Play'}
        </button>
        <label class="row">
          <span class="hidden">Position in the recording</span>
          <input
            type="range"
            min={0}
            max={Math.max(0.1, lengthSec)}
            step={0.1}
            value={atSec}
            disabled={!isReady}
            onInput={(event) => player.current?.setTime(Number(event.currentTarget.value))}
          />
        </label>
        <span data-position={atSec.toFixed(2)}>
          {duration(atSec)} / {duration(lengthSec)}
        </span>
        <span class="legend">
          <span>
            <i style={{ background: 'var(--caller)' }} />
            Caller
          </span>
          <span>
            <i style={{ background: 'var(--agent)' }} />
            Agent
          </span>
        </span>
      </div>
      {spoken.length > 0 && (
        <>
          <ol class="transcript">
            {spoken.map((utterance, index) => (
              <li key={`${utterance.atMs} ${index}`} data-speaker={utterance.speaker}>
                <small>
                  {utterance.speaker === 'caller' ? 'Caller' : 'Agent'} {duration(utterance.atMs / 1000)}
                </small>
                <p dir="auto">
                  {utterance.words.map((word, i) => {
                    const next = utterance.words[i + 1]?.atMs ?? spoken[index + 1]?.atMs ?? Number.POSITIVE_INFINITY;
                    const isNow = isPlaying && atSec * 1000 >= word.atMs && atSec * 1000 < next;
                    return (
                      <button key={i} type="button" class="word" data-now={isNow} onClick={() => playFrom(word.atMs)}>
                        {visible(word.text.slice(0, 200))}
                      </button>
                    );
                  })}
                </p>
              </li>
            ))}
          </ol>
          <small>The time of a word is estimated from the time of its turn.</small>
        </>
      )}
    </div>
  );
}
