import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { useQuery } from '../api/query';
import { Fields, optionText } from '../forms/field';
import type { RecordValue } from '../forms/record-form';
import { type Refusal, within } from '../forms/refusals';
import { configSchema, description } from '../forms/schemas';
import type { PageProps } from '../page';
import { Action, Card, Copy, Problem } from '../ui/parts';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { Time } from '../ui/time';
import { type RecordKind, Records } from './records';
import { type ConnectionTest, TestResult } from './test-result';

/** The page of a provider about itself. */
const providerPages: Record<string, string> = {
  openai: 'https://platform.openai.com/docs/guides/realtime',
  azure_openai: 'https://learn.microsoft.com/azure/ai-services/openai/realtime-audio-quickstart',
  xai: 'https://docs.x.ai/docs/guides/voice',
  elevenlabs: 'https://elevenlabs.io/docs/conversational-ai',
  deepgram: 'https://developers.deepgram.com/docs/voice-agent',
  gemini: 'https://ai.google.dev/gemini-api/docs/live',
  ultravox: 'https://docs.ultravox.ai',
  hume: 'https://dev.hume.ai/docs/speech-to-speech-evi',
  vapi: 'https://docs.vapi.ai',
  retell: 'https://docs.retellai.com',
  livekit: 'https://docs.livekit.io/sip',
};

/** The settings that matter first, by provider; the others are one click away. */
const firstFields: Record<string, string[]> = {
  custom: ['protocol', 'auth_token'],
  webhook: ['format', 'events_url'],
};
const usual = [
  'api_key',
  'agent_id',
  'assistant_id',
  'config_id',
  'model',
  'voice',
  'instructions',
  'greeting',
  'language',
];

const kind: RecordKind = {
  page: 'endpoints',
  title: 'Endpoints',
  singular: 'endpoint',
  path: '/v1/endpoints',
  changes: 'admin',
  isChangeable: true,
  needsEndpoints: true,
  initial: { type: 'agent', provider: 'custom', status: 'active' },
  only: ({ type }) => [
    ...['name', 'type', ...(type === 'webhook' ? [] : ['provider']), 'target'],
    ...['record', 'status', 'fallback_endpoint_id'],
  ],
  secret: 'webhook_secret',
  loss: 'Its numbers stop receiving calls until another endpoint is attached. Running calls go on; the records of past calls stay.',
  nameOf: ({ name }) => String(name),
  empty: <p>An endpoint is where calls go: a voice agent, or your own web server. Create one, then attach a number.</p>,
  columns: [
    { title: 'Name', of: ({ name }) => <Brief text={String(name)} limit={48} /> },
    {
      title: 'Kind',
      under: true,
      of: ({ type, provider }) => (type === 'webhook' ? 'Webhook' : optionText('provider', provider)),
    },
    {
      title: 'Target',
      wide: true,
      of: ({ target }) => (
        <code>
          <Brief text={String(target)} limit={56} />
        </code>
      ),
    },
    { title: 'Health', of: ({ health }) => <State of={String(health)} /> },
    { title: 'Status', wide: true, of: ({ status }) => <State of={String(status)} /> },
  ],
  moreFields: ['provider_config'],
  more: (value, set, isNew, refusals) => (
    <Config value={value} set={set} isNew={isNew} refusals={within(refusals, 'provider_config')} />
  ),
  aside: (record, reload) => <Aside record={record} reload={reload} />,
};

export function Endpoints(props: PageProps) {
  useQuery('description', description); // the list names providers as it does
  return <Records kind={kind} {...props} />;
}

/** The settings of the chosen provider, made from its own schema. */
function Config({
  value,
  set,
  isNew,
  refusals,
}: {
  value: RecordValue;
  set: (value: RecordValue) => void;
  isNew: boolean;
  refusals: readonly Refusal[];
}) {
  const provider = value.type === 'webhook' ? 'webhook' : String(value.provider ?? 'custom');
  const schema = useQuery(`config ${provider}`, () => configSchema(provider));
  const [isWhole, setWhole] = useState(false);
  if (schema.error) return <Problem error={schema.error} onRetry={schema.reload} />;
  if (!schema.data) return null;
  const config = (value.provider_config ?? {}) as Record<string, unknown>;
  const all = Object.keys(schema.data.properties ?? {});
  const first = (firstFields[provider] ?? usual).filter((name) => all.includes(name));
  const isHidden = ({ path }: Refusal) => path[0] !== undefined && !first.includes(path[0]) && all.includes(path[0]);
  const isOpen = isWhole || refusals.some(isHidden);
  const shown = isOpen ? [...first, ...all.filter((name) => !first.includes(name))] : first;
  return (
    <fieldset>
      <legend>{provider === 'webhook' ? 'Webhook' : (schema.data.title ?? provider)}</legend>
      {providerPages[provider] && (
        <small>
          <a href={providerPages[provider]} rel="noreferrer noopener" target="_blank">
            {schema.data.title ?? provider}: what these settings mean
          </a>{' '}
          (opens another site)
        </small>
      )}
      <Fields
        key={provider}
        schema={schema.data}
        value={config}
        refusals={refusals}
        only={shown}
        onChange={(next) => set({ ...value, provider_config: isNew ? defined(next) : patchOf(next) })}
      />
      {all.length > first.length && (
        <div>
          <button type="button" class="link" aria-expanded={isOpen} onClick={() => setWhole(!isOpen)}>
            {isOpen ? 'Fewer settings' : `All ${all.length} settings`}
          </button>
        </div>
      )}
    </fieldset>
  );
}

/** Without what is empty. */
function defined(config: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).filter(([, each]) => each !== undefined && each !== null));
}

/** A JSON Merge Patch: what is empty goes. */
function patchOf(config: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).map(([name, each]) => [name, each ?? null]));
}

function Aside({ record, reload }: { record: RecordValue; reload: () => void }) {
  const path = { id: String(record.id) };
  const [result, setResult] = useState<ConnectionTest | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <>
      <Card title="Does it work?">
        <div class="stack">
          <p class="soft">
            {record.type === 'webhook'
              ? 'Sends a signed request of the type endpoint.test to the server. No call is made.'
              : 'Connects as a call would, until the agent is ready, and leaves. No call is made.'}
          </p>
          <div class="row">
            <Action
              label="Test the endpoint"
              action={async () =>
                setResult(await answerOf(api.POST('/v1/endpoints/{id}/test', { params: { path }, body: {} })))
              }
            />
            <a class="button" href={`#/try?a=${record.id}`}>
              Call it
            </a>
          </div>
          {result && <TestResult result={result} />}
        </div>
      </Card>
      <Card title="Facts">
        <dl class="facts">
          <dt>Health</dt>
          <dd>
            <State of={String(record.health)} />
          </dd>
          <dt>Id</dt>
          <dd>
            <code>{String(record.id)}</code> <Copy text={String(record.id)} />
          </dd>
          <dt>Created</dt>
          <dd>
            <Time at={String(record.created_at)} />
          </dd>
          <dt>Changed</dt>
          <dd>
            <Time at={String(record.updated_at)} />
          </dd>
          <dt>Calls</dt>
          <dd>
            <a href={`#/calls?endpoint_id=${record.id}`}>Calls of this endpoint</a>
          </dd>
        </dl>
      </Card>
      {record.type === 'webhook' && (
        <Card title="Signing secret">
          <div class="stack">
            <p class="soft">A new secret signs beside the old one for 24 hours.</p>
            {secret ? (
              <p>
                <code class="secret">{secret}</code> <Copy text={secret} />
              </p>
            ) : (
              <div>
                <Action
                  label="Make a new secret"
                  action={async () => {
                    const made = await answerOf(
                      api.POST('/v1/endpoints/{id}/rotate-secret', { params: { path }, body: {} }),
                    );
                    setSecret(made.webhook_secret ?? null);
                  }}
                />
              </div>
            )}
            {record.events_disabled_at != null && (
              <div class="notice" data-tone="warn">
                Events are not sent since the receiver answered 410 at <Time at={String(record.events_disabled_at)} />.
                Save the endpoint to send them again.
                <button type="button" onClick={reload}>
                  Look again
                </button>
              </div>
            )}
          </div>
        </Card>
      )}
    </>
  );
}
