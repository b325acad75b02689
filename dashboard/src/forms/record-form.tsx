/** A form that creates or changes a record, made from the schema of the operation. */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiProblem } from '../api/client';
import { Problem } from '../ui/parts';
import { Fields } from './field';
import { type Refusal, refusalsOf } from './refusals';
import { isNullable, type Schema } from './schemas';

export type RecordValue = Record<string, unknown>;

/** What differs from before; for a new record everything that was filled in. Empty fields of a record that can be null become null. */
export function changesOf(before: RecordValue, after: RecordValue, schema: Schema): RecordValue {
  const changes: RecordValue = {};
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const [was, is] = [before[name], after[name]];
    if (JSON.stringify(was ?? null) === JSON.stringify(is ?? null)) continue;
    if (is !== undefined && is !== null) changes[name] = is;
    else if (isNullable(field) && name in before) changes[name] = null;
  }
  return changes;
}

export function RecordForm({
  schema,
  initial,
  only,
  choices,
  button,
  children,
  onSave,
}: {
  schema: Schema;
  initial: RecordValue;
  only?: string[] | ((value: RecordValue) => string[]);
  choices?: [string, string][];
  button: string;
  /** Further fields, which see and change the value. */
  children?: (value: RecordValue, set: (value: RecordValue) => void, refusals: readonly Refusal[]) => ComponentChildren;
  /** Gets the whole value; throws what the API refuses. */
  onSave: (value: RecordValue) => Promise<void>;
}) {
  const [value, setValue] = useState<RecordValue>(initial);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const refusals = useMemo(() => (error instanceof ApiProblem ? refusalsOf(error.fields) : []), [error]);
  // The first field that was refused may be far up in a long form.
  useEffect(() => {
    if (refusals.length > 0) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [refusals]);
  return (
    <form
      ref={form}
      class="form"
      noValidate
      onSubmit={async (event) => {
        event.preventDefault();
        setBusy(true);
        setError(null);
        try {
          await onSave(value);
        } catch (problem) {
          setError(problem as Error);
        } finally {
          setBusy(false);
        }
      }}
    >
      <Fields
        schema={schema}
        value={value}
        onChange={setValue}
        refusals={refusals}
        choices={choices}
        only={typeof only === 'function' ? only(value) : only}
      />
      {children?.(value, setValue, refusals)}
      {error && <Problem error={error} />}
      <div class="row">
        <button type="submit" class="first" disabled={isBusy}>
          {button}
        </button>
      </div>
    </form>
  );
}
