/** Certificates of the tests, as PEM; `tls/make.sh` made them. All but `expired` are valid for a hundred years. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

export const tlsFile = (name: string): string => path.join(import.meta.dirname, 'tls', name);
const read = (name: string): string => readFileSync(tlsFile(name), 'utf8');
const pair = (name: string) => ({ certificate: read(`${name}.pem`), key: read(`${name}.key`) });

/** Signed `server`, `carrier`, `expired` and `client`; the stranger signed `foreign`. */
export const authority = read('authority.pem');
export const stranger = read('stranger.pem');
/** For 127.0.0.1 and localhost. */
export const server = pair('server');
export const expired = pair('expired');
export const foreign = pair('foreign');
/** For the DNS name carrier.example and the SIP domain domain.example. */
export const carrier = pair('carrier');
export const client = pair('client');
