import type { FirstStart } from './store/bootstrap.js';

/** What the start prints: where things listen, and, the first time, the key and how to dial the demo number. */
export function startBanner(
  httpUrl: string,
  sipAddresses: readonly { transport: string; host: string; port: number }[],
  first: FirstStart | null,
): string {
  const [sip] = sipAddresses;
  const transports = sipAddresses.map((address) => address.transport).join(', ');
  const lines = [
    'Trunkline is ready.',
    `  SIP    ${sip === undefined ? 'no address' : `sip:${sip.host}:${sip.port} (${transports})`}`,
    `  API    ${httpUrl}/v1   description: ${httpUrl}/openapi.json`,
  ];
  if (first !== null) {
    if (first.apiKey !== null) lines.push(`  key    ${first.apiKey}  (shown once)`);
    const host = sip === undefined || sip.host === '0.0.0.0' ? '127.0.0.1' : sip.host;
    lines.push(
      `  demo   ${first.number} answers with an echo. Dial it:`,
      `           npx trunkline call ${first.number}`,
      `           or with a softphone: sip:${first.number}@${host}${sip === undefined || sip.port === 5060 ? '' : `:${sip.port}`}`,
    );
  }
  return lines.join('\n');
}
