import type { IncomingHttpHeaders } from 'node:http';
import { organizationIdOf } from './resources.js';

/** Converts the basic authentication of Twilio's clients: the account is the organization, the password is the API key. */
export function basicAsKey(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { authorization: given, 'x-api-key': _unused, ...rest } = headers;
  const encoded = /^Basic +([A-Za-z0-9+/=_-]{1,1000}) *$/i.exec(given ?? '')?.[1];
  const [account = '', key = ''] = Buffer.from(encoded ?? '', 'base64')
    .toString('utf8')
    .split(':', 2);
  const organizationId = organizationIdOf(account);
  if (organizationId === null || key === '') return rest;
  return { ...rest, authorization: `Bearer ${key}`, 'x-organization-id': organizationId };
}
