/** What was said, in the order in which it was said; with a recording a click on a word plays it. */
import type { CallDetail } from '../api/types';
import { visible } from '../ui/text';
import { duration } from '../ui/time';
import { turnsOf } from './turn-list';
import { utterances } from './utterances';

export function Transcript({
  call,
  nowMs,
  onPlay,
}: {
  call: CallDetail;
  /** What is heard now, in milliseconds from the start of the recording; null while nothing plays. */
  nowMs: number | null;
  /** Plays from there; absent without a recording. */
  onPlay?: (atMs: number) => void;
}) {
  const spoken = utterances({ ...call, turns: turnsOf(call) });
  if (spoken.length === 0) return null;
  return (
    <>
      <ol class="transcript">
        {spoken.map((utterance, index) => (
          <li key={`${utterance.atMs} ${index}`} data-speaker={utterance.speaker}>
            <small>
              {utterance.speaker === 'caller' ? 'Caller' : 'Agent'} {duration(utterance.atMs / 1000)}
            </small>
            <p dir="auto">
              {utterance.words.map((word, i) => {
                const text = visible(word.text.slice(0, 200));
                if (!onPlay) return <span key={i}>{text} </span>;
                const next = utterance.words[i + 1]?.atMs ?? spoken[index + 1]?.atMs ?? Number.POSITIVE_INFINITY;
                const isNow = nowMs !== null && nowMs >= word.atMs && nowMs < next;
                return (
                  <button key={i} type="button" class="word" data-now={isNow} onClick={() => onPlay(word.atMs)}>
                    {text}
                  </button>
                );
              })}
            </p>
          </li>
        ))}
      </ol>
      {onPlay && <small>The time of a word is estimated from the time of its turn.</small>}
    </>
  );
}
