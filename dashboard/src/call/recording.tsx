/** The recording: a waveform of both sides, in step with the transcript; a click on a word plays it. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type WaveSurfer from 'wavesurfer.js';
import { rawFetch } from '../api/client';
import type { CallDetail } from '../api/types';
import { colour } from '../charts/uplot';
import { Loading, Problem } from '../ui/parts';
import { Brief, brief } from '../ui/text';
import { duration } from '../ui/time';
import { markersOf } from './markers';
import { Transcript } from './transcript';
import { recordingBegan } from './utterances';

/** A larger file is not decoded in the page; it can be downloaded. */
const largestBytes = 80_000_000;

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
  const beginMs = recordingBegan(call);
  const { isReady, isPlaying, atSec, lengthSec } = state;
  const tick = isPlaying ? Math.floor((atSec * 1000) / tellEveryMs) : null;
  useEffect(() => onTime(tick === null ? null : beginMs + atSec * 1000), [tick, beginMs]);
  const markers = useMemo(() => markersOf(call.events, beginMs, lengthSec * 1000), [call.events, beginMs, lengthSec]);
  useEffect(() => {
    if (seek) playFrom(Math.max(0, seek.atMs - beginMs));
  }, [seek]);

  if (state.error) return <Problem error={state.error} />;
  return (
    <div class="stack">
      <div class="wave">
        <div class="waveform" ref={place} aria-hidden="true" />
        {isReady && (
          <ul class="markers" aria-label="Events in the recording">
            {markers.map(({ id, atMs, words, tone }) => (
              <li
                key={id}
                data-tone={tone}
                data-side={atMs / 1000 > lengthSec * 0.6 ? 'left' : 'right'}
                style={{ left: `${Math.min(100, (atMs / (lengthSec * 1000)) * 100)}%` }}
              >
                <button
                  type="button"
                  aria-label={`Play from ${duration(atMs / 1000)}: ${brief(words, 100)}`}
                  onClick={() => playFrom(atMs)}
                />
                <span aria-hidden="true">
                  {duration(atMs / 1000)} <Brief text={words} limit={60} />
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
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
      <Transcript call={call} nowMs={isPlaying ? atSec * 1000 : null} onPlay={playFrom} />
    </div>
  );
}
