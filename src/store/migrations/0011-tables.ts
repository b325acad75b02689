/** What is asked of one endpoint's deliveries, and its deletion, look at these alone. */
export const statements = [
  'create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, created_at, id)',
];
