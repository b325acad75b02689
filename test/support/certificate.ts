import { execFileSync } from 'node:child_process';

/** A self-signed certificate for 127.0.0.1, fresh. Needs Debian's `openssl`. */
export function selfSigned(): { key: string; cert: string } {
  const wish = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout - -out -';
  const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  let pem: string;
  try {
    pem = execFileSync('openssl', [...wish.split(' '), ...names], { stdio: ['ignore', 'pipe', 'ignore'] }).toString();
  } catch {
    throw new Error('This test needs openssl: apt-get install openssl.');
  }
  const part = (what: string) => new RegExp(`-----BEGIN ${what}-----[^]+?-----END ${what}-----`).exec(pem)?.[0] ?? '';
  return { key: part('PRIVATE KEY'), cert: part('CERTIFICATE') };
}
