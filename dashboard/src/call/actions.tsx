import { useState } from 'preact/hooks';
import { ApiProblem, answerOf, api, download } from '../api/client';
import type { CallDetail } from '../api/types';
import type { Me } from '../page';
import { Confirmed, Dialog, Problem } from '../ui/parts';

/** What can be done with the call: while it runs, and with its record afterwards. */
export function CallActions({ call, me, onChange }: { call: CallDetail; me: Me; onChange: () => void }) {
  const path = { id: call.id };
  const [error, setError] = useState<Error | null>(null);
  const [open, setOpen] = useState<'transfer' | 'redirect' | 'keys' | null>(null);
  const run = async (work: () => Promise<unknown>) => {
    setError(null);
    try {
      await work();
      setOpen(null);
      onChange();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  if (call.status !== 'in_progress') {
    const file = (suffix: string) => `trunkline-${call.id.slice(0, 13)}.${suffix}`;
    return (
      <>
        <span class="soft">Download</span>
        {call.recording_url && (
          <button type="button" onClick={() => run(() => download(`/v1/calls/${call.id}/recording`, file('wav')))}>
            Recording
          </button>
        )}
        <button
          type="button"
          onClick={() => run(() => download(`/v1/calls/${call.id}/trace?format=pcap`, file('pcap')))}
        >
          Capture (pcap)
        </button>
        <button type="button" onClick={() => run(() => download(`/v1/calls/${call.id}/capsule`, file('json')))}>
          Everything (JSON)
        </button>
        {me.role !== 'member' && (
          <Confirmed
            label="Delete"
            title="Delete this call?"
            warning={
              <>
                <p>This cannot be undone. With the record go:</p>
                <ul>
                  <li>• its {call.events.length} events and the SIP trace</li>
                  <li>• its turns and quality samples</li>
                  {call.transcript && <li>• its transcript</li>}
                  {call.recording_url && <li>• its recording</li>}
                </ul>
              </>
            }
            action={() => answerOf(api.DELETE('/v1/calls/{id}', { params: { path } }))}
            onDone={() => {
              location.hash = '#/calls';
            }}
          />
        )}
        {error && <Problem error={error} />}
      </>
    );
  }
  return (
    <>
      <button type="button" onClick={() => setOpen('keys')}>
        Send keys
      </button>
      <button type="button" onClick={() => setOpen('transfer')}>
        Transfer
      </button>
      <button type="button" onClick={() => setOpen('redirect')}>
        Redirect
      </button>
      <button
        type="button"
        class="danger"
        onClick={() => run(() => answerOf(api.POST('/v1/calls/{id}/hangup', { params: { path }, body: {} })))}
      >
        Hang up
      </button>
      {error && open === null && <Problem error={error} />}
      {open === 'keys' && (
        <Ask
          title="Send keys"
          label="Keys"
          help="0–9, A–D, * and #; w is a pause of half a second."
          button="Send"
          error={error}
          onClose={() => setOpen(null)}
          onSend={(digits) =>
            run(() => answerOf(api.POST('/v1/calls/{id}/dtmf', { params: { path }, body: { digits } })))
          }
        />
      )}
      {open === 'transfer' && (
        <Ask
          title="Transfer this call"
          label="To"
          help="A number such as +12025550199, or a sip: address. The call leaves its agent."
          button="Transfer"
          error={error}
          onClose={() => setOpen(null)}
          onSend={(to) => run(() => answerOf(api.POST('/v1/calls/{id}/transfer', { params: { path }, body: { to } })))}
        />
      )}
      {open === 'redirect' && (
        <Ask
          title="Redirect this call"
          label="URL or actions"
          help='The URL that answers the next actions, or the actions themselves, such as [{"action":"say","text":"One moment."}]. For calls of webhook endpoints.'
          button="Redirect"
          error={error}
          isLong
          onClose={() => setOpen(null)}
          onSend={(text) =>
            run(() =>
              answerOf(api.POST('/v1/calls/{id}/redirect', { params: { path }, body: redirectOf(text) as never })),
            )
          }
        />
      )}
    </>
  );
}

function redirectOf(text: string): { url: string } | { actions: unknown } {
  if (!text.startsWith('[')) return { url: text };
  try {
    return { actions: JSON.parse(text) };
  } catch {
    throw new ApiProblem(0, 'VALIDATION_ERROR', 'The actions are not valid JSON.');
  }
}

function Ask({
  title,
  label,
  help,
  button,
  error,
  isLong,
  onSend,
  onClose,
}: {
  title: string;
  label: string;
  help: string;
  button: string;
  error: Error | null;
  isLong?: boolean;
  onSend: (text: string) => void;
  onClose: () => void;
}) {
  const [text, setText] = useState('');
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          onSend(text.trim());
        }}
      >
        <div class="field">
          <label for="asked">{label}</label>
          {isLong ? (
            <textarea
              id="asked"
              aria-invalid={error ? true : undefined}
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          ) : (
            <input
              id="asked"
              aria-invalid={error ? true : undefined}
              value={text}
              autocomplete="off"
              onInput={(event) => setText(event.currentTarget.value)}
            />
          )}
          <small>{help}</small>
        </div>
        {error && <Problem error={error} />}
        <div class="row">
          <button type="submit" class="first" disabled={text.trim() === ''}>
            {button}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
