/** What TLS connections to a trunk's gateways need of their own, as PEM. */
export const statements = [
  'alter table trunks add column tls_ca text',
  'alter table trunks add column tls_certificate text',
  'alter table trunks add column tls_key text',
];
