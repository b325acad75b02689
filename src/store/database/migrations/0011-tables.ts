/**
 * Deliveries of one endpoint and of one call, in their order. Without the organization in them SQLite takes the index of all the
 * organization's deliveries instead, and looks at each.
 */
export const statements = [
  'create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, organization_id, mode, created_at, id)',
  'drop index webhook_deliveries_by_call',
  'create index webhook_deliveries_by_call on webhook_deliveries (call_id, organization_id, mode, created_at, id)',
];
