/** The table of `docs/providers/README.md`: platform by capability, one row for each provider with a socket. */
import type { AgentProtocol } from './agent.js';
import type { ProviderCapabilities } from './descriptor.js';

/** Between these lines of the page stands the table. */
export const TABLE_BEGIN = '<!-- generated from the provider descriptors: begin -->';
export const TABLE_END = '<!-- generated from the provider descriptors: end -->';

const columns: readonly [title: string, cell: (of: ProviderCapabilities) => string][] = [
  ['audio to it', ({ audio }) => audio],
  ['message that flushes the playout queue', ({ flush }) => flush.map(code).join(', ') || 'none'],
  ['message that reports what was heard', ({ heard }) => (heard === undefined ? 'not used' : code(heard))],
  ['audio after a flush', ({ afterFlush }) => afterFlush],
  ['DTMF', ({ keys }) => (keys.as === 'text' ? 'text' : keys.as === 'key' ? code(keys.message) : 'no')],
  ['hang-up', ({ hangUp }) => hangUp.words],
  ['transfer', ({ transfer }) => transfer ?? 'no'],
  ['keepalive', ({ keepAlive }) => (keepAlive === undefined ? 'silence' : `silence, ${code(keepAlive)}`)],
  ['`variables` of the call', ({ variables }) => variables],
  ['tokens', ({ tokens }) => (tokens === undefined ? 'not told' : code(tokens))],
  ['longest session', ({ longestSession }) => longestSession],
];

/** In Markdown, without a line break at its end. */
export function providerTable(protocols: readonly AgentProtocol[]): string {
  const rows = protocols.map(({ provider, title, page, selectedBy, capabilities }) => [
    selectedBy === 'provider' ? code(provider) : `\`custom\`, ${code(provider)}`,
    `[${title}](${page})`,
    ...columns.map(([, cell]) => cell(capabilities)),
  ]);
  const titles = ['provider', 'page', ...columns.map(([title]) => title)];
  return [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}
