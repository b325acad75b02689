/** One field of a form, by its schema. An empty field has the value undefined: it is not sent. */
import { useId, useState } from 'preact/hooks';
import { brief } from '../ui/text';
import { aboutAll, aboutItself, type Refusal, within } from './refusals';
import { providerTitle, type Schema, typeOf } from './schemas';

export interface FieldProps {
  name: string;
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  isRequired: boolean;
  /** What the API refused of this field and of what it holds. */
  refusals: readonly Refusal[];
  /** Records that a field with an id may name. */
  choices?: [id: string, name: string][];
}

const secretNames = /^(api_key|api_secret|auth_token|password|sip_password|key)$/;
const longNames = /^(instructions|greeting|ca|certificate|key)$/;
const acronyms: Record<string, string> = {
  id: 'id',
  url: 'URL',
  uri: 'URI',
  api: 'API',
  sip: 'SIP',
  srtp: 'SRTP',
  tls: 'TLS',
  ca: 'CA',
  s: 'seconds',
  ms: 'ms',
  wss: 'WSS',
};

/** `first_audio_timeout_s` as `First audio timeout seconds`. */
export function labelOf(name: string): string {
  const words = name.split('_').map((word) => acronyms[word] ?? word);
  const text = words.join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const optionWords: Record<string, Record<string, string>> = {
  type: { agent: 'Voice agent', webhook: 'Webhook: your own HTTP server' },
  direction: { inbound: 'Inbound', outbound: 'Outbound', both: 'Both ways' },
  status: { active: 'Active', inactive: 'Inactive' },
  srtp: { off: 'Off', allow: 'If the other side can', require: 'Always' },
  transport: { udp: 'UDP', tcp: 'TCP', tls: 'TLS' },
  role: { owner: 'Owner', admin: 'Admin', member: 'Member' },
  mode: { live: 'Live', test: 'Test' },
  tier: { free: 'Free', pro: 'Pro', business: 'Business', enterprise: 'Enterprise' },
  format: {
    json: 'JSON actions',
    twiml: 'TwiML (Twilio)',
    texml: 'TeXML (Telnyx)',
    plivo: 'Plivo XML',
    ncco: 'NCCO (Vonage)',
  },
};

/** A value of a field as people read it. */
export function optionText(field: string, value: unknown): string {
  const text = String(value);
  return (field === 'provider' ? providerTitle(text) : optionWords[field]?.[text]) ?? text;
}

/** What the settings of providers mean; the schemas of other fields say it themselves. */
const help: Record<string, string> = {
  api_key: 'The key of your account at the provider. It is stored and never shown again.',
  model: 'The model of the provider; empty for its default.',
  voice: 'The voice of the agent, by the name or id that the provider gives it.',
  instructions: 'What the agent is to do, in your words (the system prompt).',
  greeting: 'What the agent says first.',
  language: 'The language of the conversation, such as en or de-DE.',
  tools: 'Tools that the agent may call, as JSON in the form of the provider.',
  base_url: 'Another address of the provider’s REST API.',
  headers: 'Header fields of the connection, one per line: Name: value.',
  sample_rate: 'The sample rate of the audio to the agent, in Hz.',
  encoding: 'The encoding of the audio to the agent.',
  frame_ms: 'How much audio each message to the agent carries.',
  remove_echo: 'Whether the echo of the agent’s own voice is taken out of what it hears.',
  first_audio_timeout_s: 'The agent fails when it is silent for this long after the answer; 0 for never.',
  transcribe: 'Whether Trunkline writes the transcript when the provider gives none.',
  override: 'JSON that is merged into the first message to the provider.',
  agent_id: 'The id of the agent at the provider.',
  assistant_id: 'The id of the assistant at the provider.',
  config_id: 'The id of the configuration at the provider.',
  project_id: 'The id of the project at the provider.',
  protocol: 'What your agent speaks over its WebSocket.',
  auth_token: 'Signs the connection as Twilio does (X-Twilio-Signature).',
  events_url: 'Where the events of calls are sent, signed.',
  format: 'What the webhook speaks: JSON actions, or TwiML as with Twilio.',
  temperature: 'From 0 (always the same) to 2.',
  sip_username: 'The user name for an agent behind SIP.',
  sip_password: 'The password for an agent behind SIP.',
  srtp: 'Whether the audio to an agent behind SIP is encrypted.',
  allow_refer: 'Whether the agent may transfer the call by REFER.',
};

export function Field(props: FieldProps) {
  const { name, schema, value, onChange, isRequired, refusals, choices } = props;
  const wrong = aboutAll(refusals);
  const id = useId();
  const text = plain(schema.description ?? help[name] ?? '');
  const type = typeOf(schema);
  const shared = {
    id,
    'aria-describedby': wrong ? `${id}-wrong ${id}-help` : `${id}-help`,
    'aria-invalid': wrong ? true : undefined,
    required: isRequired,
  };
  const set = (raw: string) => onChange(raw === '' ? undefined : raw);

  if (type === 'object' && schema.properties && Object.keys(schema.properties).length > 0) return <Group {...props} />;
  if (
    type === 'array' &&
    typeOf(schema.items ?? {}) === 'object' &&
    Object.keys(schema.items?.properties ?? {}).length > 0
  )
    return <Rows {...props} />;
  if (type === 'boolean')
    return (
      <div class="field">
        <label class="check">
          <input
            type="checkbox"
            {...shared}
            checked={value === true}
            onChange={(event) => onChange(event.currentTarget.checked)}
          />
          <span>{labelOf(name)}</span>
        </label>
        <Help id={id} text={text} wrong={wrong} />
      </div>
    );
  if (type === 'array' && schema.items?.enum) {
    const chosen = (Array.isArray(value) ? value : []) as unknown[];
    return (
      <fieldset>
        <legend>{labelOf(name)}</legend>
        <div class="row">
          {schema.items.enum.map((item) => (
            <label class="check" key={String(item)}>
              <input
                type="checkbox"
                checked={chosen.includes(item)}
                onChange={(event) =>
                  onChange(event.currentTarget.checked ? [...chosen, item] : chosen.filter((each) => each !== item))
                }
              />
              <span>{String(item)}</span>
            </label>
          ))}
        </div>
        <Help id={id} text={text} wrong={wrong} />
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label for={id}>
        {labelOf(choices ? name.replace(/_id$/, '') : name)}
        {isRequired && <span class="soft"> (required)</span>}
      </label>
      {input()}
      <Help id={id} text={text} wrong={wrong} />
    </div>
  );

  function input() {
    if (schema.enum || choices) {
      const options =
        choices ??
        (schema.enum ?? []).filter((each) => each !== null).map((each) => [String(each), optionText(name, each)]);
      return (
        <select
          {...shared}
          value={value === undefined || value === null ? '' : String(value)}
          onChange={(event) => {
            const raw = event.currentTarget.value;
            const found = schema.enum?.find((each) => String(each) === raw);
            onChange(raw === '' ? (choices ? null : undefined) : (found ?? raw));
          }}
        >
          {!isRequired && <option value="">{choices ? 'None' : 'Default'}</option>}
          {isRequired && (value === undefined || value === null) && <option value="">Choose…</option>}
          {options.map(([key, label]) => (
            <option key={key} value={key}>
              {brief(label ?? '')}
            </option>
          ))}
        </select>
      );
    }
    if (type === 'integer' || type === 'number')
      return (
        <input
          {...shared}
          type="number"
          step={type === 'integer' ? 1 : 'any'}
          min={schema.minimum}
          max={schema.maximum}
          value={typeof value === 'number' ? value : ''}
          onInput={(event) => onChange(event.currentTarget.value === '' ? null : Number(event.currentTarget.value))}
        />
      );
    if (type === 'array' && typeOf(schema.items ?? {}) === 'string')
      return (
        <textarea
          {...shared}
          placeholder="one per line"
          value={Array.isArray(value) ? value.join('\n') : ''}
          onInput={(event) => {
            const lines = event.currentTarget.value.split('\n').map((line) => line.trim());
            onChange(lines.filter((line) => line !== ''));
          }}
        />
      );
    if (schema.patternProperties || (type === 'object' && typeof schema.additionalProperties === 'object'))
      return <Pairs shared={shared} value={value} onChange={onChange} />;
    if (type === 'object' || type === 'array') return <Json shared={shared} value={value} onChange={onChange} />;
    if (secretNames.test(name) && !longNames.test(name))
      return (
        <input
          {...shared}
          type="password"
          autocomplete="off"
          placeholder={value === '********' ? 'stored; type to replace it' : ''}
          value={typeof value === 'string' && value !== '********' ? value : ''}
          onInput={(event) => set(event.currentTarget.value)}
        />
      );
    if (longNames.test(name))
      return (
        <textarea
          {...shared}
          value={typeof value === 'string' ? value : ''}
          onInput={(event) => set(event.currentTarget.value)}
        />
      );
    return (
      <input
        {...shared}
        autocomplete="off"
        maxLength={schema.maxLength}
        value={typeof value === 'string' ? value : ''}
        onInput={(event) => set(event.currentTarget.value)}
      />
    );
  }
}

function Help({ id, text, wrong }: { id: string; text: string; wrong?: string }) {
  return (
    <>
      {wrong && (
        <small class="wrong" id={`${id}-wrong`}>
          {wrong}
        </small>
      )}
      <small id={`${id}-help`}>{text}</small>
    </>
  );
}

/** The text of a description in the words of a form: without marks, and without what only programs send. */
function plain(text: string): string {
  return text
    .replaceAll('`', '')
    .replace(/ ?Write-only: it is shown as \*+; sending \*+ keeps it\./g, ' It is stored and never shown again.')
    .replace(/; omitted \w+ keep their value/g, '')
    .replace(/([;.]) null for/g, (_, mark: string) => `${mark} ${mark === '.' ? 'Empty' : 'empty'} for`);
}

function Group({ name, schema, value, onChange, refusals, choices }: FieldProps) {
  const object = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  return (
    <fieldset>
      <legend>{labelOf(name)}</legend>
      {schema.description && <small>{plain(schema.description)}</small>}
      <Wrong refusals={refusals} />
      <Fields schema={schema} value={object} onChange={onChange} refusals={refusals} choices={choices} />
    </fieldset>
  );
}

/** The sentence about a group of fields as a whole. */
function Wrong({ refusals }: { refusals: readonly Refusal[] }) {
  const wrong = aboutItself(refusals);
  return wrong ? <small class="wrong">{wrong}</small> : null;
}

/** The fields of an object. */
export function Fields({
  schema,
  value,
  onChange,
  refusals,
  choices,
  only,
}: {
  schema: Schema;
  value: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
  refusals: readonly Refusal[];
  choices?: [string, string][];
  /** The names to show, in their order; all if absent. */
  only?: string[];
}) {
  const names = only ?? Object.keys(schema.properties ?? {});
  return (
    <>
      {names.map((name) => {
        const field = schema.properties?.[name];
        if (!field) return null;
        return (
          <Field
            key={name}
            name={name}
            schema={field}
            value={value[name]}
            onChange={(next) => onChange({ ...value, [name]: next })}
            isRequired={schema.required?.includes(name) ?? false}
            refusals={within(refusals, name)}
            choices={/endpoint_id$/.test(name) ? choices : undefined}
          />
        );
      })}
    </>
  );
}

function Rows({ name, schema, value, onChange, refusals, choices }: FieldProps) {
  const rows = (Array.isArray(value) ? value : []) as Record<string, unknown>[];
  const set = (index: number, row: Record<string, unknown> | null) =>
    onChange(rows.flatMap((each, i) => (i === index ? (row ? [row] : []) : [each])));
  return (
    <fieldset>
      <legend>{labelOf(name)}</legend>
      {schema.description && <small>{plain(schema.description)}</small>}
      <Wrong refusals={refusals} />
      {rows.map((row, index) => (
        <fieldset key={index}>
          <legend>{index + 1}</legend>
          <Wrong refusals={within(refusals, String(index))} />
          <Fields
            schema={schema.items ?? {}}
            value={row}
            onChange={(next) => set(index, next)}
            refusals={within(refusals, String(index))}
            choices={choices}
          />
          <div>
            <button type="button" onClick={() => set(index, null)}>
              Remove
            </button>
          </div>
        </fieldset>
      ))}
      <div>
        <button type="button" onClick={() => onChange([...rows, {}])}>
          Add
        </button>
      </div>
    </fieldset>
  );
}

interface TextProps {
  shared: object;
  value: unknown;
  onChange: (value: unknown) => void;
}

/** `Name: value`, one per line. */
function Pairs({ shared, value, onChange }: TextProps) {
  const [text, setText] = useState(() =>
    Object.entries((value ?? {}) as Record<string, string>)
      .map(([key, each]) => `${key}: ${each}`)
      .join('\n'),
  );
  return (
    <textarea
      {...shared}
      placeholder="Name: value"
      value={text}
      onInput={(event) => {
        setText(event.currentTarget.value);
        const pairs = event.currentTarget.value.split('\n').flatMap((line) => {
          const [, key, each] = /^\s*([^:]+?)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
          return key === undefined ? [] : [[key, each] as const];
        });
        onChange(pairs.length === 0 ? undefined : Object.fromEntries(pairs));
      }}
    />
  );
}

function Json({ shared, value, onChange }: TextProps) {
  const [text, setText] = useState(() => (value === undefined ? '' : JSON.stringify(value, null, 2)));
  const [isWrong, setWrong] = useState(false);
  return (
    <>
      <textarea
        {...shared}
        placeholder="JSON"
        value={text}
        onInput={(event) => {
          const raw = event.currentTarget.value;
          setText(raw);
          try {
            onChange(raw.trim() === '' ? undefined : JSON.parse(raw));
            setWrong(false);
          } catch {
            setWrong(true);
          }
        }}
      />
      {isWrong && <small class="wrong">This is not valid JSON yet.</small>}
    </>
  );
}
