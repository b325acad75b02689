/**
 * Indexes of the deliveries of one endpoint and of one call, in order. They contain the organization: otherwise SQLite uses the index of all
 * deliveries of the organization and reads each of them.
 */
export const statements = [
  'create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, organization_id, mode, created_at, id)',
  'drop index webhook_deliveries_by_call',
  'create index webhook_deliveries_by_call on webhook_deliveries (call_id, organization_id, mode, created_at, id)',
];
