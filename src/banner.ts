import type { FirstStart } from './store/tenants/bootstrap.js';

/** The text printed at the start: listening addresses and, at the first start, the API key and how to dial the demo number. */
export function startBanner(
  httpUrl: string,
  {
    addresses,
    problems,
  }: {
    addresses: readonly { transport: string; host: string; port: number }[];
    problems: readonly string[];
  },
  first: FirstStart | null,
  /** Signs in to the dashboard once; null on later starts. */
  signInUrl: string | null = null,
): string {
  const [sip] = addresses;
  const lines = [
    'Trunkline is ready.',
    `  SIP    ${sip === undefined ? 'no SIP server is connected yet' : places(addresses).join(', ')}`,
    ...problems.map((problem) => `         ${problem} It is waited for.`),
    `  API    ${httpUrl}/v1   description: ${httpUrl}/openapi.json`,
    `  page   ${signInUrl === null ? `${httpUrl}/` : `${signInUrl}  (signs in once, within an hour)`}`,
  ];
  if (first !== null) {
    if (first.apiKey !== null) lines.push(`  key    ${first.apiKey}  (shown once)`);
    const port = sip === undefined || sip.port === 5060 ? '' : `:${sip.port}`;
    lines.push(
      ...(first.loopbackTrunkId === null
        ? [
            `  demo   ${first.number} answers with an echo. Calls are taken from the addresses of trunks; name your phone's:`,
            '           npx trunkline trunks add --name "My phone" --address ADDRESS',
            `           and dial sip:${first.number}@HOST${port} with it`,
          ]
        : [
            `  demo   ${first.number} answers with an echo. Dial it:`,
            `           npx trunkline call ${first.number}`,
            `           or with a softphone: sip:${first.number}@${sip?.host ?? '127.0.0.1'}${port}`,
          ]),
    );
  }
  return lines.join('\n');
}

/** `sip:192.0.2.1:5060 (udp, tcp)` for each host and port. */
function places(addresses: readonly { transport: string; host: string; port: number }[]): string[] {
  const transports = new Map<string, string[]>();
  for (const { transport, host, port } of addresses) {
    const uri = `sip:${host.includes(':') ? `[${host}]` : host}:${port}`;
    transports.set(uri, [...(transports.get(uri) ?? []), transport]);
  }
  return [...transports].map(([uri, names]) => `${uri} (${names.join(', ')})`);
}
