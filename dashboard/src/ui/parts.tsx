import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiProblem } from '../api/client';

/** The head of a page; its heading gets the focus after a change of the page. */
export function Head({
  title,
  under,
  children,
}: {
  title: ComponentChildren;
  under?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="head">
      <div>
        <h1>{title}</h1>
        {under && <p class="soft">{under}</p>}
      </div>
      <div class="row">{children}</div>
    </div>
  );
}

export function Card({
  title,
  aside,
  children,
}: {
  title?: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      {title && (
        <header>
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

const advice: Record<string, string> = {
  UNREACHABLE: '',
  FORBIDDEN: 'Ask an admin or owner of the organization, or sign in with another key.',
  RATE_LIMIT_EXCEEDED: 'Wait a moment, then try again.',
  NOT_FOUND: 'It may have been deleted, or belongs to another organization or mode.',
  SERVICE_UNAVAILABLE: 'Try again in a few seconds.',
};

/** What went wrong and what to do. */
export function Problem({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const next = error instanceof ApiProblem ? advice[error.code] : undefined;
  return (
    <div class="notice" data-tone="bad" role="alert">
      <strong>{error.message}</strong>
      {error instanceof ApiProblem && error.fields.length > 0 && (
        <ul>
          {error.fields.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {next && <span>{next}</span>}
      {onRetry && (
        <div>
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        </div>
      )}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Loading() {
  return (
    <p class="soft" role="status">
      Loading…
    </p>
  );
}

/** A dialog of the page; Escape and a click on Cancel close it. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={title}>
      <div class="stack">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** A button that asks before it acts; `warning` names what is lost. */
export function Confirmed({
  label,
  title,
  warning,
  action,
  onDone,
}: {
  label: string;
  title: string;
  warning: ComponentChildren;
  action: () => Promise<unknown>;
  onDone: () => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const act = async () => {
    try {
      await action();
      setOpen(false);
      onDone();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          <div>{warning}</div>
          {error && <Problem error={error} />}
          <div class="row">
            <button type="button" class="danger" onClick={act}>
              {label}
            </button>
            <button type="button" onClick={() => setOpen(false)}>
              Cancel
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** A button that shows that it works, and what went wrong. */
export function Action({
  label,
  first,
  disabled,
  action,
}: {
  label: string;
  first?: boolean;
  disabled?: boolean;
  action: () => Promise<unknown>;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const act = async () => {
    setBusy(true);
    setError(null);
    try {
      await action();
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button type="button" class={first ? 'first' : ''} disabled={isBusy || disabled} onClick={act}>
        {isBusy ? `${label}…` : label}
      </button>
      {error && <Problem error={error} />}
    </>
  );
}

/** A text to be taken along: an id, a secret. */
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="link"
      onClick={async () => {
        await navigator.clipboard.writeText(text).catch(() => undefined);
        setCopied(true);
        setTimeout(() => setCopied(false), 1_500);
      }}
    >
      {isCopied ? 'Copied' : label}
    </button>
  );
}
