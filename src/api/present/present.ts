/** Converts records to API objects with exactly these fields. */
import { microcentsPerCent } from '../../billing/rate.js';
import type { CallEvent, CallSummary, CallText } from '../../store/calls/call-records.js';
import type { RejectedInvite } from '../../store/calls/rejected-invites.js';
import type { Endpoint } from '../../store/routing/endpoints.js';
import type { PhoneNumber } from '../../store/routing/phone-numbers.js';
import type { Trunk } from '../../store/routing/trunks.js';
import type { WebhookDelivery } from '../../store/routing/webhook-deliveries.js';
import type { CardRate, LedgerEntry } from '../../store/tenants/accounts.js';
import type { ApiKey } from '../../store/tenants/api-keys.js';
import type { Balance } from '../../store/tenants/holds.js';
import type { Invitation } from '../../store/tenants/invitations.js';
import type { Member, Organization } from '../../store/tenants/organizations.js';
import type { Page, Slice } from '../../store/tenants/scope.js';
import type { StoredProviderConfig } from '../../store/tenants/secrets.js';
import { telnyxPublicKey } from '../../webhook/signature.js';
import type { Caller } from '../auth/caller.js';
import type { RecordingUrls } from '../recordings/recording-urls.js';
import { withoutPassword } from '../rules/targets.js';
import { inSnakeCase } from './stored-names.js';

export function presentCall(call: CallSummary, recordingUrls: RecordingUrls) {
  return {
    id: call.id,
    from_number: call.fromNumber,
    to_number: call.toNumber,
    direction: call.direction,
    status: call.status,
    duration: call.durationSec,
    cost: call.costMicrocents / microcentsPerCent,
    latency_ms: call.latencyMs,
    phone_number_id: call.phoneNumberId,
    endpoint_id: call.endpointId,
    recording_url: recordingUrls.of(call),
    hangup_cause: call.hangupCause,
    organization_id: call.organizationId,
    created_at: call.createdAt.toISOString(),
    answered_at: iso(call.answeredAt),
    completed_at: iso(call.completedAt),
  };
}

/** Returns the call detail as JSON text. */
export function presentCallDetail(call: CallText, recordingUrls: RecordingUrls): string {
  const listed = JSON.stringify(presentCall(call, recordingUrls));
  return `${listed.slice(0, -1)},"quality_metrics":${call.quality},"transcript":${JSON.stringify(call.transcript)},"sip_call_id":${JSON.stringify(call.sipCallId)},"hangup_source":${JSON.stringify(call.hangupSource)},"ring_seconds":${call.ringSeconds},"timings":${inSnakeCase(call.timings)},"turns":${inSnakeCase(call.turns)},"metadata":${call.metadata},"events":${call.events}}`;
}

export function presentCallEvent(event: CallEvent) {
  return {
    id: event.id,
    event_type: event.type,
    event_data: event.data,
    created_at: event.createdAt.toISOString(),
    sequence: event.sequence,
  };
}

/** With the key that checks its signatures, if its format has one. */
export function presentSigned(endpoint: Endpoint, webhookSecret: string | null | undefined) {
  const isSigned = endpoint.providerConfig.format === 'texml' && typeof webhookSecret === 'string';
  return { ...presentEndpoint(endpoint), ...(isSigned && { webhook_public_key: telnyxPublicKey(webhookSecret) }) };
}

export function presentEndpoint(endpoint: Endpoint) {
  return {
    id: endpoint.id,
    organization_id: endpoint.organizationId,
    name: endpoint.name,
    type: endpoint.type,
    target: withoutPassword(endpoint.target),
    provider: endpoint.provider,
    provider_config: shownConfig(endpoint.providerConfig),
    record: endpoint.record,
    status: endpoint.status,
    health: endpoint.health,
    fallback_endpoint_id: endpoint.fallbackEndpointId,
    events_disabled_at: iso(endpoint.eventsDisabledAt),
    created_at: endpoint.createdAt.toISOString(),
    updated_at: endpoint.updatedAt.toISOString(),
  };
}

/** The provider configuration; the store has masked its secrets. */
function shownConfig(config: StoredProviderConfig): StoredProviderConfig {
  const urls = (['base_url', 'events_url', 'status_callback_url'] as const).flatMap((name) => {
    const url = config[name];
    return typeof url === 'string' ? [[name, withoutPassword(url)] as const] : [];
  });
  return urls.length === 0 ? config : { ...config, ...Object.fromEntries(urls) };
}

export function presentWebhookDelivery(delivery: WebhookDelivery) {
  return {
    id: delivery.id,
    endpoint_id: delivery.endpointId,
    call_id: delivery.callId,
    sequence: delivery.sequence,
    event_type: delivery.eventType,
    status: delivery.status,
    attempts: delivery.attempts.map((attempt) => ({
      at: attempt.at.toISOString(),
      duration_ms: attempt.durationMs,
      http_status: attempt.httpStatus,
      error: attempt.error,
    })),
    next_attempt_at: iso(delivery.nextAttemptAt),
    created_at: delivery.createdAt.toISOString(),
    delivered_at: iso(delivery.deliveredAt),
  };
}

export function presentPhoneNumber(number: PhoneNumber) {
  return {
    id: number.id,
    organization_id: number.organizationId,
    number: number.number,
    name: number.name,
    endpoint_id: number.endpointId,
    fallback_endpoint_id: number.fallbackEndpointId,
    status_callback_url: number.statusCallbackUrl,
    status_callback_method: number.statusCallbackMethod,
    routes: number.routes,
    status: number.status,
    created_at: number.createdAt.toISOString(),
    updated_at: number.updatedAt.toISOString(),
  };
}

export function presentTrunk(trunk: Trunk) {
  return {
    id: trunk.id,
    organization_id: trunk.organizationId,
    name: trunk.name,
    direction: trunk.direction,
    addresses: trunk.addresses,
    username: trunk.username,
    password: trunk.password,
    gateways: trunk.gateways.map((gateway) => ({ ...gateway, uri: withoutPassword(gateway.uri) })),
    transport: trunk.transport,
    srtp: trunk.srtp,
    tls: trunk.tls,
    register: trunk.register,
    codecs: trunk.codecs,
    max_calls: trunk.maxCalls,
    calls_per_second: trunk.callsPerSecond,
    outbound: trunk.outbound,
    status: trunk.status,
    health: trunk.health,
    created_at: trunk.createdAt.toISOString(),
    updated_at: trunk.updatedAt.toISOString(),
  };
}

export function presentApiKey(key: ApiKey) {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    mode: key.mode,
    organization_id: key.organizationId,
    created_at: key.createdAt.toISOString(),
    last_used_at: iso(key.lastUsedAt),
  };
}

export function presentMe(
  caller: Caller,
  invitations: readonly { invitation: Invitation; organization: Organization }[],
) {
  const { user, key, mode } = caller;
  return {
    user: { id: user.id, name: user.name, platform_owner: user.platformOwner },
    mode,
    role: caller.role,
    organization: presentOrganization(caller.organization),
    organizations: caller.memberships.map(({ organization, role }) => ({ ...presentOrganization(organization), role })),
    invitations: invitations.map(({ invitation, organization }) => ({
      organization: { id: organization.id, name: organization.name },
      role: invitation.role,
      expires_at: invitation.expiresAt.toISOString(),
    })),
    api_key: key && { id: key.id, name: key.name, prefix: key.prefix },
  };
}

/** An organization with its limits and balance. */
export function presentAccount(organization: Organization, balance: Balance) {
  return {
    ...presentOrganization(organization),
    limits: organization.limits,
    balance_cents: balance.microcents === null ? null : balance.microcents / microcentsPerCent,
    held_cents: balance.heldMicrocents / microcentsPerCent,
    created_at: organization.createdAt.toISOString(),
  };
}

export function presentMember(member: Member) {
  return {
    id: member.id,
    status: member.userId === null ? 'invited' : 'active',
    user_id: member.userId,
    name: member.name,
    subject: member.subject,
    email: member.email,
    role: member.role,
    joined_at: iso(member.joinedAt),
    expires_at: iso(member.expiresAt),
  };
}

export function presentRate(rate: CardRate) {
  return {
    direction: rate.direction,
    prefix: rate.prefix,
    rate_cents_per_minute: rate.microcentsPerMinute / microcentsPerCent,
    initial_increment_s: rate.initialIncrementSec,
    increment_s: rate.incrementSec,
  };
}

export function presentLedgerEntry(entry: LedgerEntry) {
  return {
    id: entry.id,
    kind: entry.kind,
    amount_cents: entry.amountMicrocents / microcentsPerCent,
    balance_cents: entry.balanceMicrocents / microcentsPerCent,
    call_id: entry.callId,
    note: entry.note,
    created_at: entry.createdAt.toISOString(),
  };
}

export function presentRejectedInvite({ createdAt, ...invite }: RejectedInvite) {
  return { ...invite, created_at: createdAt.toISOString() };
}

/** `{data, total, limit, offset}` */
export function presentList<T, R>(page: Page<T>, slice: Slice, present: (record: T) => R) {
  return { data: page.data.map(present), total: page.total, limit: slice.limit, offset: slice.offset };
}

function presentOrganization(organization: Organization) {
  return { id: organization.id, name: organization.name, tier: organization.tier };
}

function iso(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}
