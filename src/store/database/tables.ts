/** The rows of the database. Times are milliseconds since 1970, money is micro-cents, booleans are 0 and 1, `json` is text. */
import type { CallStatus, HangupCause } from '../../../sip/cause.js';
import type { Mode } from '../tenants/scope.js';

export type Flag = 0 | 1;
export type Role = 'owner' | 'admin' | 'member';
export type Tier = 'free' | 'pro' | 'business' | 'enterprise';
export type Direction = 'inbound' | 'outbound';
/** The party that ended a call. */
export type HangupSource = 'caller' | 'callee' | 'agent' | 'api' | 'system';

/** The lease of a node. */
export interface InstanceRow {
  /** Another one for each lease. */
  id: string;
  /** null: of a version that had none. */
  name: string | null;
  /** One machine, one boot, one PID namespace: within it a process id means something. */
  host: string;
  pid: number;
  started_at: number;
  heartbeat_at: number;
}

/** What one node does for all. */
export interface NodeRoleRow {
  role: string;
  instance_id: string;
}

export interface OrganizationRow {
  id: string;
  name: string;
  tier: Tier;
  /** json: `OrganizationLimits`. */
  limits: string;
  /** null: not metered. */
  balance_microcents: number | null;
  created_at: number;
  updated_at: number;
}

export interface UserRow {
  id: string;
  name: string;
  /** The `sub` of an identity provider's token. */
  subject: string | null;
  platform_owner: Flag;
  created_at: number;
}

export interface MemberRow {
  organization_id: string;
  user_id: string;
  role: Role;
  /** Order of joining: decides a user's first organization. */
  joined_at: number;
}

export interface ApiKeyRow {
  id: string;
  user_id: string;
  /** Limited to this organization; null: all organizations of the user. */
  organization_id: string | null;
  mode: Mode;
  name: string;
  /** The visible beginning of the key. */
  prefix: string;
  /** SHA-256 of the key, hex. */
  hash: string;
  created_at: number;
  last_used_at: number | null;
  revoked_at: number | null;
}

export interface EndpointRow {
  id: string;
  organization_id: string;
  mode: Mode;
  name: string;
  type: 'agent' | 'webhook';
  target: string;
  provider: string | null;
  /** json, secrets in clear. */
  provider_config: string;
  record: Flag;
  status: 'active' | 'inactive';
  health: 'unknown' | 'healthy' | 'degraded' | 'down';
  fallback_endpoint_id: string | null;
  webhook_secret: string | null;
  /** The secret before the last rotation signs beside the new one until then. */
  previous_secret: string | null;
  previous_secret_until: number | null;
  /** The receiver answered 410: no events until the endpoint is changed. */
  events_disabled_at: number | null;
  /** Whether `provider_config`, which may be encrypted, has an `events_url`; null until the first start after the migration. */
  has_events_url: 0 | 1 | null;
  created_at: number;
  updated_at: number;
}

export interface PhoneNumberRow {
  id: string;
  organization_id: string;
  mode: Mode;
  /** E.164 with `+`. */
  number: string;
  name: string;
  endpoint_id: string | null;
  fallback_endpoint_id: string | null;
  /** json: `RouteRule[]`. */
  routes: string;
  status: 'active' | 'inactive';
  status_callback_url: string | null;
  status_callback_method: 'GET' | 'POST';
  created_at: number;
  updated_at: number;
}

export interface TrunkRow {
  id: string;
  /** null: shared by all organizations. */
  organization_id: string | null;
  mode: Mode;
  name: string;
  direction: 'inbound' | 'outbound' | 'both';
  /** json: CIDR strings. */
  addresses: string;
  username: string | null;
  /** In clear. */
  password: string | null;
  /** json: `TrunkGateway[]`. */
  gateways: string;
  transport: 'udp' | 'tcp' | 'tls';
  srtp: 'off' | 'allow' | 'require';
  tls_ca: string | null;
  tls_certificate: string | null;
  /** In clear. */
  tls_key: string | null;
  register: Flag;
  /** json: codec names. */
  codecs: string;
  max_calls: number | null;
  calls_per_second: number | null;
  /** json: `OutboundIdentity`. */
  outbound: string;
  status: 'active' | 'inactive';
  health: 'unknown' | 'healthy' | 'degraded' | 'down';
  created_at: number;
  updated_at: number;
}

export interface CallRow {
  id: string;
  organization_id: string;
  mode: Mode;
  /** The process that runs it. */
  instance_id: string;
  sip_call_id: string | null;
  direction: Direction;
  from_number: string;
  to_number: string;
  status: CallStatus;
  duration_sec: number;
  cost_microcents: number;
  latency_ms: number;
  phone_number_id: string;
  endpoint_id: string | null;
  trunk_id: string | null;
  recording_url: string | null;
  hangup_cause: HangupCause | null;
  hangup_source: HangupSource | null;
  ring_seconds: number | null;
  /** json: `CallTimings`. */
  timings: string | null;
  /** json: the API's `quality_metrics`. */
  quality: string | null;
  /** json: `Turn[]`. */
  turns: string | null;
  /** json: as given at the start. */
  metadata: string | null;
  transcript: string | null;
  created_at: number;
  answered_at: number | null;
  completed_at: number | null;
}

export interface CallEventRow {
  id: string;
  call_id: string;
  sequence: number;
  event_type: string;
  /** json: an object. */
  event_data: string;
  created_at: number;
}

export interface CallTraceRow {
  call_id: string;
  /** json: `TraceEntry[]`. */
  trace: string;
}

/** An event on its way to the `events_url` of a webhook endpoint; its id is the event's. */
export interface WebhookDeliveryRow {
  id: string;
  organization_id: string;
  mode: Mode;
  endpoint_id: string;
  call_id: string;
  sequence: number;
  event_type: string;
  status: 'pending' | 'delivered' | 'failed';
  /** 1: pending behind another one of the same call and endpoint. See `routing/outbox.ts`. */
  waits: 0 | 1;
  attempts: number;
  /** During an attempt: when another process may treat it as failed. */
  next_attempt_at: number;
  created_at: number;
  delivered_at: number | null;
}

export interface WebhookAttemptRow {
  delivery_id: string;
  number: number;
  at: number;
  duration_ms: number;
  /** null: no answer; `error` says why. */
  http_status: number | null;
  error: string | null;
}

/** How many calls of each status began in a bucket of time; `phone_number_id` is '' for all numbers together. Kept by `CountChanges`. */
interface CallCountRow extends Record<CallStatus, number> {
  organization_id: string;
  mode: Mode;
  phone_number_id: string;
  direction: Direction;
}

export interface CallDayRow extends CallCountRow {
  /** UTC, counted from 1970-01-01. */
  day: number;
}

export interface CallHourRow extends CallCountRow {
  hour: number;
}

/**
 * How many calls of a day had a figure in a bucket. `figure` `ended` and `answered`: the calls, in bucket 0; `mos`: bucket in hundredths;
 * `response_ms`: turns of agents, by the middle of the bucket. Kept by `CountChanges`.
 */
export interface CallInsightRow {
  organization_id: string;
  mode: Mode;
  day: number;
  grouped_by: 'all' | 'endpoint' | 'trunk';
  /** Of the endpoint or trunk; empty for all. */
  group_id: string;
  figure:
    | 'ended'
    | 'answered'
    | 'mos'
    | 'response_ms'
    | 'caller_network_ms'
    | 'gateway_uplink_ms'
    | 'gateway_playout_ms';
  bucket: number;
  n: number;
}

/** Made by the first process that needs it, and the same for all. */
export interface InstallationSecretRow {
  name: string;
  /** Hex. */
  secret: string;
}

/** A line of an organization's rate card. The longest prefix of the called number decides. */
export interface RateRow {
  organization_id: string;
  direction: Direction;
  /** Digits after `+`; empty for all numbers. */
  prefix: string;
  microcents_per_minute: number;
  initial_increment_s: number;
  increment_s: number;
}

/** The rate that holds for a call, and what is held for it while it runs. */
export interface CallFundsRow {
  call_id: string;
  organization_id: string;
  microcents_per_minute: number;
  initial_increment_s: number;
  increment_s: number;
  /** Conversation that is paid for so far; null: the organization is not metered. */
  funded_s: number | null;
  /** 0 once settled. */
  held_microcents: number;
}

export interface LedgerRow {
  id: string;
  organization_id: string;
  kind: 'credit' | 'call';
  /** What it added to the balance; negative for calls. */
  amount_microcents: number;
  /** The balance after it. */
  balance_microcents: number;
  call_id: string | null;
  note: string;
  created_at: number;
}

export interface SpendDayRow {
  organization_id: string;
  day: number;
  microcents: number;
}

export interface IdempotencyKeyRow {
  /** `key:` and the id of an API key, or `user:` and the id of the user of a token. */
  caller: string;
  organization_id: string;
  /** The path with its ids. */
  operation: string;
  /** SHA-256 of the client's key, hex. */
  key: string;
  /** HMAC-SHA-256 of the body with the client's key, hex. */
  body_hash: string;
  status: number;
  /** json: body and headers, without secrets. */
  answer: string;
  created_at: number;
}

/** Gone once it is accepted. Either `subject` or `email` is set. */
export interface InvitationRow {
  id: string;
  organization_id: string;
  /** The `sub` of the invited person's tokens. */
  subject: string | null;
  /** Lower case. */
  email: string | null;
  role: Role;
  name: string | null;
  created_at: number;
  expires_at: number;
}

export interface RequestDayRow {
  organization_id: string;
  day: number;
  requests: number;
}

export interface RejectedInviteRow {
  id: string;
  sip_call_id: string;
  from_number: string;
  to_number: string;
  transport: string;
  address: string;
  port: number;
  sip_status: number;
  cause: string;
  created_at: number;
}

export interface CallQualityRow {
  call_id: string;
  /** json: `QualitySample[]`. */
  samples: string;
}

/** A dialog of a running call; gone with the call's end. */
export interface CallDialogRow {
  call_id: string;
  sip_call_id: string;
  /** json: `DialogSnapshot`. */
  dialog: string;
}

/** A recording of a webhook action; deleted with the call. */
export interface RecordingRow {
  id: string;
  call_id: string;
  /** The part of its URL that grants access. */
  token: string;
  /** A `file:` URL. */
  file: string;
  duration_ms: number;
  bytes: number;
  created_at: number;
}

export interface MigrationRow {
  name: string;
  applied_at: number;
}

export interface SettingsVersionRow {
  id: 1;
  version: number;
}

/** The last batch of a process's journal that is written. */
export interface JournalPositionRow {
  instance_id: string;
  number: number;
}

/** An event of a call that another process numbers. */
export interface WaitingEventRow {
  id: string;
  call_id: string;
  event_type: string;
  /** json */
  event_data: string;
  created_at: number;
}

export interface Tables {
  settings_version: SettingsVersionRow;
  journal_positions: JournalPositionRow;
  instances: InstanceRow;
  node_roles: NodeRoleRow;
  organizations: OrganizationRow;
  users: UserRow;
  members: MemberRow;
  api_keys: ApiKeyRow;
  endpoints: EndpointRow;
  phone_numbers: PhoneNumberRow;
  trunks: TrunkRow;
  calls: CallRow;
  call_events: CallEventRow;
  waiting_events: WaitingEventRow;
  call_traces: CallTraceRow;
  webhook_deliveries: WebhookDeliveryRow;
  webhook_attempts: WebhookAttemptRow;
  call_days: CallDayRow;
  call_hours: CallHourRow;
  call_insights: CallInsightRow;
  installation_secrets: InstallationSecretRow;
  rates: RateRow;
  call_funds: CallFundsRow;
  ledger: LedgerRow;
  spend_days: SpendDayRow;
  idempotency_keys: IdempotencyKeyRow;
  invitations: InvitationRow;
  request_days: RequestDayRow;
  rejected_invites: RejectedInviteRow;
  call_quality: CallQualityRow;
  call_dialogs: CallDialogRow;
  recordings: RecordingRow;
  schema_migrations: MigrationRow;
}
