/** The SIP messages as a ladder: one line for each peer and one for Trunkline, an arrow for each message. */
import { useState } from 'preact/hooks';
import { Empty } from '../ui/parts';
import { Brief, visible } from '../ui/text';
import { Time } from '../ui/time';

export interface SipMessage {
  at: string;
  direction: 'received' | 'sent';
  peer: { transport: string; address: string; port: number } | null;
  message: string;
}

const addressOf = ({ peer }: SipMessage) =>
  peer ? `${peer.address.includes(':') ? `[${peer.address}]` : peer.address}:${peer.port}` : 'unknown';

/** `INVITE`, `200 OK to INVITE`. */
export function nameOf(message: string): string {
  const [first = ''] = message.split(/\r?\n/, 1);
  const [, status, reason] = /^SIP\/2\.0 (\d{3}) ?(.*)$/.exec(first) ?? [];
  if (status === undefined) return first.split(' ')[0] ?? '';
  const method = /^CSeq:\s*\d+\s+(\w+)/im.exec(message)?.[1];
  return `${status} ${reason ?? ''}${method ? ` to ${method}` : ''}`;
}

export function Ladder({ messages }: { messages: SipMessage[] }) {
  const [open, setOpen] = useState<number | null>(null);
  if (messages.length === 0)
    return (
      <Empty title="No SIP messages are stored">
        <p>The trace is stored when the call ends. An older call may have lost it.</p>
      </Empty>
    );
  const peers = [...new Set(messages.map(addressOf))];
  // The first peer, which began the call or was called first, stands at the left; all others at the right of Trunkline.
  const lanes = [peers[0] ?? '', 'Trunkline', ...peers.slice(1)];
  const grid = `4.2rem repeat(${lanes.length}, minmax(0, 1fr))`;
  const first = Date.parse(messages[0]?.at ?? '');
  return (
    <div class="ladder">
      <div class="ladder-row ladder-head" style={{ gridTemplateColumns: grid }} aria-hidden="true">
        <span />
        {lanes.map((lane) => (
          <span key={lane} class="mono">
            <Brief text={lane} limit={28} />
          </span>
        ))}
      </div>
      <ol>
        {messages.map((message, index) => {
          const lane = lanes.indexOf(addressOf(message));
          const us = 1;
          const [left, right] = [Math.min(lane, us), Math.max(lane, us)];
          const toRight = message.direction === 'received' ? lane < us : lane > us;
          const name = nameOf(message.message);
          const status = Number(/^\d{3}/.exec(name)?.[0] ?? 0);
          const tone = status >= 400 ? 'bad' : status >= 200 ? 'good' : 'plain';
          // The time goes with the arrow: a column of the time and half a column on both sides.
          return (
            <li key={`${message.at} ${index}`}>
              <button
                type="button"
                class="ladder-row"
                style={{ gridTemplateColumns: grid }}
                aria-expanded={open === index}
                onClick={() => setOpen(open === index ? null : index)}
              >
                <small class="right">+{((Date.parse(message.at) - first) / 1000).toFixed(3)}</small>
                <span class="hidden">
                  {message.direction === 'sent' ? 'Sent to' : 'Received from'} {addressOf(message)}:{' '}
                </span>
                {lanes.map((each, column) => (
                  <i key={each} class="lifeline" style={{ gridColumn: column + 2 }} />
                ))}
                <span
                  class="arrow"
                  data-tone={tone}
                  data-to={toRight ? 'right' : 'left'}
                  style={{ gridColumn: `${left + 2} / ${right + 3}` }}
                >
                  <span style={{ margin: `0 ${50 / (right - left + 1)}%` }}>{visible(name.slice(0, 40))}</span>
                </span>
              </button>
              {open === index && (
                <div class="stack tight event-data">
                  <small>
                    <Time at={message.at} form="ms" /> · {message.peer?.transport} · UTC {message.at}
                  </small>
                  <pre>{visible(message.message.slice(0, 20_000).replaceAll('\r\n', '\n'))}</pre>
                </div>
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
