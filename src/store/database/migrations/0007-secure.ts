/** The TLS certificates and keys of a trunk's gateways, as PEM. */
export const statements = [
  'alter table trunks add column tls_ca text',
  'alter table trunks add column tls_certificate text',
  'alter table trunks add column tls_key text',
];
