/** An example request and response of every operation, consistent with each other. A test validates them against the schemas. */

const id = (n: number) => `0198c0de-0000-7000-8000-${String(n).padStart(12, '0')}`;
const organizationId = id(1);
const at = (time: string) => `2026-01-15T${time}Z`;
const slice = { total: 1, limit: 50, offset: 0 };

const call = {
  id: id(40),
  from_number: '+12025550199',
  to_number: '+12025550123',
  direction: 'inbound',
  status: 'completed',
  duration: 42,
  cost: 1.4,
  latency_ms: 480,
  phone_number_id: id(20),
  endpoint_id: id(10),
  recording_url: `https://calls.example.com/v1/calls/${id(40)}/recording?expires=1768485600&signature=Zk3vJ7w0bq8yq0a2n1eXc5rTgYhUjIkOlPzXcVbNm4A`,
  hangup_cause: 'normal_clearing',
  organization_id: organizationId,
  created_at: at('12:00:00.000'),
  answered_at: at('12:00:00.480'),
  completed_at: at('12:00:42.480'),
};
const running = {
  ...call,
  ...{ status: 'in_progress', duration: 0, cost: 0, recording_url: null, hangup_cause: null, completed_at: null },
};
const started = { ...running, direction: 'outbound', latency_ms: 0, answered_at: null };
const detail = {
  ...call,
  quality_metrics: {
    ...{ mos: 4.38, jitter_ms: 2, packet_loss: 0.1, codec: 'PCMU', rtt_ms: 31 },
    audio_delay: {
      caller_network: { p50_ms: 31, p95_ms: 44, worst_ms: 44.2 },
      gateway_uplink: { p50_ms: 1, p95_ms: 2, worst_ms: 9.4 },
      agent_thinking: { p50_ms: 840, p95_ms: 2310, worst_ms: 2310 },
      gateway_playout: { p50_ms: 5, p95_ms: 8, worst_ms: 31.5 },
      blame: 'The agent was slow to answer: 2310 ms at p95, where 1500 ms are the limit.',
    },
  },
  events: [
    {
      id: id(50),
      event_type: 'call.initiated',
      event_data: { from_number: call.from_number, to_number: call.to_number, direction: 'inbound' },
      created_at: call.created_at,
      sequence: 1,
    },
    {
      id: id(51),
      event_type: 'call.completed',
      event_data: { hangup_cause: 'normal_clearing', hangup_source: 'caller', duration: 42 },
      created_at: call.completed_at,
      sequence: 2,
    },
  ],
  transcript: 'agent: Hello.\ncaller: Hello, I would like a table for two.',
  sip_call_id: 'f81d4fae-7dec@203.0.113.7',
  hangup_source: 'caller',
  ring_seconds: 0,
  timings: { setup_ms: 480, post_dial_delay_ms: 60, answer_to_first_audio_ms: 210 },
  turns: [
    { started_at: at('12:00:00.690'), speaker: 'agent', duration_ms: 600, response_ms: null },
    { started_at: at('12:00:02.000'), speaker: 'caller', duration_ms: 2400, response_ms: 710 },
  ],
  metadata: { customer: '4711' },
};
const message = {
  at: call.created_at,
  direction: 'received',
  peer: { transport: 'udp', address: '203.0.113.7', port: 5060 },
  message: 'INVITE sip:+12025550123@198.51.100.2 SIP/2.0\r\n…',
};
const endpoint = {
  id: id(10),
  organization_id: organizationId,
  name: 'Reservations',
  type: 'agent',
  target: 'wss://agent.example.com/twilio',
  provider: 'custom',
  provider_config: { protocol: 'twilio', auth_token: '********' },
  record: true,
  status: 'active',
  health: 'healthy',
  fallback_endpoint_id: null,
  events_disabled_at: null,
  created_at: at('09:00:00.000'),
  updated_at: at('09:00:00.000'),
};
const webhook = {
  ...endpoint,
  ...{ id: id(11), name: 'Menu', type: 'webhook', target: 'https://example.com/calls', provider: null, record: false },
  provider_config: { events_url: 'https://example.com/events' },
};
const number = {
  id: id(20),
  organization_id: organizationId,
  number: '+12025550123',
  name: 'Main line',
  endpoint_id: id(10),
  fallback_endpoint_id: id(11),
  routes: [
    { endpoint_id: id(11), schedule: { timezone: 'Europe/Berlin', days: [6, 7], start: '09:00', end: '18:00' } },
  ],
  status: 'active',
  status_callback_url: null,
  status_callback_method: 'POST',
  created_at: at('09:01:00.000'),
  updated_at: at('09:01:00.000'),
};
const trunk = {
  id: id(30),
  organization_id: organizationId,
  name: 'My carrier',
  direction: 'both',
  addresses: ['203.0.113.0/24'],
  username: 'trunkline',
  password: '********',
  gateways: [{ uri: 'sip:sip.carrier.example', priority: 0, weight: 1 }],
  transport: 'udp',
  tls: { ca: null, certificate: null, key: null },
  srtp: 'off',
  register: false,
  codecs: ['PCMU', 'PCMA'],
  max_calls: 30,
  calls_per_second: null,
  outbound: {
    ...{ to_format: '{e164}', from_format: '{e164}', from_domain: null, asserted_identity: null, diversion: null },
    ...{ privacy: 'none', headers: {} },
  },
  status: 'active',
  health: 'healthy',
  created_at: at('09:02:00.000'),
  updated_at: at('09:02:00.000'),
};
const organization = {
  id: organizationId,
  name: 'Default',
  tier: 'enterprise',
  limits: {
    ...{ requests_per_second: null, requests_per_day: null, concurrent_calls: 50, calls_per_second: 5 },
    ...{ daily_spend_cents: 10_000, allowed_prefixes: ['+1', '+49'], call_retention_days: 90 },
  },
  balance_cents: 4_998.6,
  held_cents: 0,
  created_at: at('08:00:00.000'),
};
const short = { id: organizationId, name: 'Default', tier: 'enterprise' };
const member = {
  ...{ id: id(3), status: 'active', user_id: id(3), name: 'Ada', subject: 'auth0|ada', email: null, role: 'admin' },
  ...{ joined_at: at('08:30:00.000'), expires_at: null },
};
const invited = {
  ...{
    id: id(4),
    status: 'invited',
    user_id: null,
    name: 'Ben',
    subject: null,
    email: 'ben@example.com',
    role: 'member',
  },
  ...{ joined_at: null, expires_at: '2026-01-29T08:30:00.000Z' },
};
const rates = {
  rates: [
    { direction: 'outbound', prefix: '1', rate_cents_per_minute: 2, initial_increment_s: 6, increment_s: 6 },
    { direction: 'inbound', prefix: '', rate_cents_per_minute: 0.5, initial_increment_s: 60, increment_s: 60 },
  ],
};
const credit = {
  ...{ id: id(60), kind: 'credit', amount_cents: 5_000, balance_cents: 5_000, call_id: null },
  ...{ note: 'Bank transfer', created_at: at('08:40:00.000') },
};
const key = {
  ...{ id: id(4), name: 'Website', prefix: 'trunkline_test_4f9K', mode: 'test', organization_id: null },
  ...{ created_at: at('08:50:00.000'), last_used_at: null },
};
const delivery = {
  ...{ id: id(51), endpoint_id: id(11), call_id: call.id, sequence: 2, event_type: 'call.completed' },
  status: 'delivered',
  attempts: [{ at: call.completed_at, duration_ms: 35, http_status: 204, error: null }],
  ...{ next_attempt_at: null, created_at: call.completed_at, delivered_at: at('12:00:42.520') },
};
const spread = { count: 118, p5: 3.9, p50: 4.36, p95: 4.41, p99: 4.41 };
const latency = { count: 904, p5: 430, p50: 720, p95: 1450, p99: 2750 };
const audioDelay = {
  caller_network_ms: { count: 96, p5: 18, p50: 41, p95: 120, p99: 260 },
  gateway_uplink_ms: { count: 121, p5: 1, p50: 1, p95: 3, p99: 22 },
  gateway_playout_ms: { count: 119, p5: 4, p50: 6, p95: 14, p99: 27 },
};
const insight = {
  ...{ calls: 130, answered: 121, answer_rate: 0.9308, mos: spread, turn_latency_ms: latency },
  audio_delay: audioDelay,
};
const sample = {
  at: at('12:00:05.480'),
  ...{ mos: 4.4, jitter_ms: 1, packet_loss: 0 },
  recent_audio_delay: {
    caller_network: { p50_ms: 38, p95_ms: 38, worst_ms: 38 },
    gateway_uplink: { p50_ms: 1, p95_ms: 2, worst_ms: 6.4 },
    gateway_playout: { p50_ms: 11, p95_ms: 20, worst_ms: 21.3 },
  },
};

export interface Example {
  request?: unknown;
  /** The success response; absent if it has no body. */
  answer?: unknown;
}

const insights = {
  start_date: '2026-01-15',
  end_date: '2026-01-15',
  total: insight,
  by_day: [{ date: '2026-01-15', ...insight }],
  by_endpoint: [{ endpoint_id: id(10), ...insight }],
  by_trunk: [{ trunk_id: id(30), ...insight }],
};
const explanation = {
  summary:
    'The call came in and was never answered: the agent could not be reached (The agent refused the connection).',
  hop: 'agent',
  advice: 'Test the endpoint; check its target, its key and that the server runs.',
};
export const examples: Readonly<Record<string, Example>> = {
  listCalls: { answer: { data: [call], total: 1, page: 1, limit: 20, total_pages: 1 } },
  getCall: { answer: detail },
  deleteCall: {},
  hangupCall: { request: {}, answer: running },
  sendDtmf: { request: { digits: '1w42#' }, answer: running },
  redactCall: { request: { on: true, max_s: 120 }, answer: running },
  transferCall: { request: { to: '+12025550188' }, answer: running },
  redirectCall: { request: { actions: [{ action: 'say', text: 'One moment.' }] }, answer: running },
  getCallQuality: { answer: { call_id: call.id, samples: [sample] } },
  getCallTrace: { answer: { call_id: call.id, sip_call_id: detail.sip_call_id, messages: [message] } },
  getCallInsights: { answer: insights },
  getCallRecording: { answer: 'RIFF…' },
  pauseCallRecording: { request: {}, answer: running },
  resumeCallRecording: { request: {}, answer: running },
  getRecording: { answer: 'RIFF…' },
  getCallCapsule: {
    answer: {
      format: 'trunkline.capsule.1',
      made_at: at('12:05:00.000'),
      call: detail,
      quality_samples: [sample],
      sip_messages: [message],
      webhook_deliveries: [],
      endpoint,
      phone_number: number,
    },
  },
  simulateCall: {
    request: { to: '+12025550123', duration_ms: 5000, loss_percent: 2, jitter_ms: 30 },
    answer: {
      ...{ ok: true, problems: [], answered: true, sip_status: null, sip_call_id: 'a84b4c76e66710' },
      ...{ cause: 'normal_clearing', setup_ms: 31, duration_ms: 5003, codec: 'PCMU' },
      sent: { packets: 250, dropped: 5 },
      received: { packets: 249, lost: 0, mos: 4.4 },
      round_trip: { sent: 5, found: 5, median_ms: 78 },
    },
  },
  createOutboundCall: {
    request: {
      ...{ to_number: '+12025550199', from_number: '+12025550123', endpoint_id: id(10) },
      metadata: { customer: '4711' },
    },
    answer: started,
  },
  listEndpoints: { answer: { data: [endpoint], ...slice } },
  createEndpoint: {
    request: {
      ...{ name: 'Reservations', type: 'agent', target: 'wss://agent.example.com/twilio' },
      provider_config: { protocol: 'twilio', auth_token: 'a secret of yours' },
    },
    answer: endpoint,
  },
  getEndpoint: { answer: endpoint },
  updateEndpoint: { request: { provider_config: { auth_token: 'a new secret' } }, answer: endpoint },
  deleteEndpoint: {},
  rotateEndpointSecret: { request: {}, answer: { ...webhook, webhook_secret: 'whsec_…' } },
  listPhoneNumbers: { answer: { data: [number], ...slice } },
  createPhoneNumber: { request: { number: '+12025550123', endpoint_id: id(10) }, answer: number },
  getPhoneNumber: { answer: number },
  updatePhoneNumber: { request: { fallback_endpoint_id: id(11) }, answer: number },
  deletePhoneNumber: {},
  listTrunks: { answer: { data: [trunk], ...slice } },
  createTrunk: {
    request: {
      ...{ name: 'My carrier', addresses: ['203.0.113.0/24'], username: 'trunkline', password: 'a secret' },
      gateways: [{ uri: 'sip:sip.carrier.example' }],
    },
    answer: trunk,
  },
  getTrunk: { answer: trunk },
  updateTrunk: { request: { max_calls: 30 }, answer: trunk },
  deleteTrunk: {},
  simulateRoute: {
    request: { from: '+12025550199', to: '+12025550123', at: at('12:00:00.000') },
    answer: {
      decision: 'connect',
      phone_number_id: id(20),
      endpoint_ids: [id(10), id(11)],
      hangup_cause: null,
      rules: [{ rule: 'routes[0]', verdict: 'skipped', detail: 'outside its schedule' }],
    },
  },
  testEndpoint: {
    request: {},
    answer: {
      ...{ ok: true, duration_ms: 184 },
      addresses: [{ address: 'wss://agent.example.com/calls', ok: true, message: 'It is ready for a call.' }],
    },
  },
  testTrunk: {
    request: {},
    answer: {
      ...{ ok: false, duration_ms: 4_012 },
      addresses: [{ address: 'sip:sip.carrier.example', ok: false, message: 'It did not answer' }],
    },
  },
  getDoctorFindings: {
    answer: {
      findings: [
        {
          check: 'clock',
          level: 'warning',
          says: 'the clock is not synchronized',
          fix: 'install chrony or systemd-timesyncd',
        },
      ],
    },
  },
  createEventToken: {
    request: {},
    answer: { token: '0a2n1eXc5rTgYhUjIkOlPzXcVbNm4AZk', expires_at: at('12:01:00.000') },
  },
  getOverview: {
    answer: {
      live: [
        {
          call: running,
          explanation: { summary: 'The call came in and is answered and running.', hop: null, advice: null },
        },
      ],
      live_total: 1,
      days: [{ date: '2026-01-15', completed: 41, failed: 2, in_progress: 1, no_answer: 3, busy: 1 }],
      insights: { total: insights.total, by_day: insights.by_day },
      audio_delay_ms: { count: 120, p50: 62, p95: 81 },
      failures: [{ call: { ...call, status: 'failed', hangup_cause: 'agent_unreachable' }, explanation }],
      endpoints: [{ id: id(10), name: 'Support agent', type: 'agent', status: 'active', health: 'healthy' }],
      trunks: [{ id: id(30), name: 'My carrier', status: 'active', health: 'healthy' }],
      organization,
    },
  },
  getCallExplanation: { answer: explanation },
  searchCalls: { answer: { data: [call], next_cursor: 'MTc2ODQ3ODQwMDAwMCAwMTk4YzBkZS0wMDAw' } },
  exportCalls: { answer: 'id,created_at,answered_at,completed_at,direction,from_number,to_number,status\r\n' },
  streamEvents: {
    answer: `id: ${id(51)}\nevent: call.completed\ndata: ${JSON.stringify({ call_id: call.id, ...detail.events[1] })}\n\n`,
  },
  listWebhookDeliveries: { answer: { data: [delivery], ...slice } },
  retryWebhookDelivery: {
    request: {},
    answer: { ...delivery, status: 'pending', next_attempt_at: at('12:10:00.000'), delivered_at: null },
  },
  getSignIn: {
    answer: { identity_provider: { authorization_url: 'https://idp.example.com/authorize?response_type=code' } },
  },
  signInByLink: { request: { code: 'Zk3vJ7w0bq8yq0a2n1eXc5rTgYhUjIkO' }, answer: { token: 'trunkline_live_4f9K…' } },
  signInByCode: {
    request: {
      code: 'SplxlOBeZQQYbYS6WxSbIA',
      code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      redirect_uri: 'https://calls.example.com/',
    },
    answer: { token: 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.…' },
  },
  getMe: {
    answer: {
      user: { id: id(2), name: 'Owner', platform_owner: true },
      ...{ mode: 'live', role: 'owner', organization: short, organizations: [{ ...short, role: 'owner' }] },
      invitations: [],
      api_key: { id: id(5), name: 'First key', prefix: 'trunkline_live_9aQz' },
    },
  },
  listApiKeys: { answer: { data: [key], ...slice } },
  createApiKey: {
    request: { name: 'Website', mode: 'test' },
    answer: { ...key, key: 'trunkline_test_4f9K…' },
  },
  deleteApiKey: {},
  listOrganizations: { answer: { data: [organization], ...slice } },
  createOrganization: { request: { name: 'Default', tier: 'enterprise' }, answer: organization },
  getOrganization: { answer: organization },
  updateOrganization: { request: { limits: { concurrent_calls: 50 } }, answer: organization },
  getRates: { answer: rates },
  replaceRates: { request: rates, answer: rates },
  listLedger: { answer: { data: [credit], ...slice } },
  addCredits: { request: { amount_cents: 5_000, note: 'Bank transfer' }, answer: credit },
  listMembers: { answer: { data: [member, invited], ...slice, total: 2 } },
  addMember: { request: { email: 'ben@example.com', role: 'member', name: 'Ben' }, answer: invited },
  removeMember: {},
  listRejectedInvites: {
    answer: {
      data: [
        {
          ...{ id: id(70), sip_call_id: '3848276298', from_number: '1000', to_number: '+441632960000' },
          ...{ transport: 'udp', address: '198.51.100.66', port: 5071, sip_status: 403, cause: 'blocked_source' },
          created_at: at('03:12:00.000'),
        },
      ],
      ...slice,
    },
  },
  transcribe: {
    request: { file: '(an audio file)', target_language: 'en' },
    answer: { choices: [{ text: 'A table for two, please.' }], model: 'whisper-1', object: 'transcription' },
  },
  getHealth: { answer: { status: 'ok' } },
  getReadiness: {
    answer: {
      ready: true,
      checks: { sip: true, media: true, database: true, accepting: true },
      problems: [],
      degraded: [],
    },
  },
  getMetrics: {
    answer: '# HELP trunkline_calls Calls that run now\n# TYPE trunkline_calls gauge\ntrunkline_calls 3\n',
  },
  getOpenapi: { answer: { openapi: '3.1.0', info: { title: 'Trunkline', version: '1.3.0' } } },
  getDocs: { answer: '<!doctype html>…' },
};
