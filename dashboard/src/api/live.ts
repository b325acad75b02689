/** The events of all calls as they happen: one stream for the whole page, by fetch, because EventSource sends no key. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { authorization, onSession, session } from './session';

export interface LiveEvent {
  id: string;
  call_id: string;
  event_type: string;
  event_data: Record<string, unknown>;
  created_at: string;
  sequence: number;
}

export type LiveState = 'connecting' | 'live' | 'interrupted';

const firstRetryMs = 500;
const longestRetryMs = 10_000;
const listeners = new Set<(event: LiveEvent) => void>();
const stateListeners = new Set<(state: LiveState) => void>();
let state: LiveState = 'connecting';
let running: AbortController | null = null;
let lastId: string | null = null;

function setState(next: LiveState): void {
  state = next;
  for (const listener of stateListeners) listener(next);
}

async function follow(signal: AbortSignal): Promise<void> {
  let retryMs = firstRetryMs;
  while (!signal.aborted) {
    try {
      const response = await fetch('/v1/events', {
        signal,
        headers: { ...authorization(), ...(lastId && { 'last-event-id': lastId }) },
      });
      if (response.status === 401 || response.status === 403) return;
      if (!response.ok || !response.body) throw new Error(String(response.status));
      setState('live');
      retryMs = firstRetryMs;
      await read(response.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch {
      // cut off: try again below
    }
    if (signal.aborted) return;
    setState('interrupted');
    await new Promise((resolve) => setTimeout(resolve, retryMs));
    retryMs = Math.min(longestRetryMs, retryMs * 2);
  }
}

async function read(reader: ReadableStreamDefaultReader<string>): Promise<void> {
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data === undefined) continue;
      const event = JSON.parse(data) as LiveEvent;
      if (!event.id) continue; // `reset`: the views that show it read what was missed
      lastId = event.id;
      for (const listener of listeners) listener(event);
    }
  }
}

function restart(): void {
  running?.abort();
  running = null;
  lastId = null;
  if (!session()) return;
  running = new AbortController();
  void follow(running.signal);
}
onSession(restart);
restart();

/** Calls `seen` with each event. */
export function useEvents(seen: (event: LiveEvent) => void): void {
  const latest = useRef(seen);
  latest.current = seen;
  useEffect(() => {
    const listener = (event: LiveEvent) => latest.current(event);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
}

export function useLiveState(): LiveState {
  const [now, setNow] = useState(state);
  useEffect(() => {
    stateListeners.add(setNow);
    setNow(state);
    return () => void stateListeners.delete(setNow);
  }, []);
  return now;
}
