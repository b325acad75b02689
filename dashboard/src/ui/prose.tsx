/** Texts of the API's description: paragraphs, tables, and `code`. */
import type { ComponentChildren } from 'preact';

export function Prose({ text }: { text: string }) {
  return (
    <div class="prose">
      {text
        .trim()
        .split('\n\n')
        .map((block, index) =>
          block.startsWith('|') ? <Table key={index} lines={block} /> : <p key={index}>{coded(block)}</p>,
        )}
    </div>
  );
}

/** The text with its `code`. */
export function coded(text: string): ComponentChildren {
  return text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}

function Table({ lines }: { lines: string }) {
  const [head = [], ...rows] = lines
    .split('\n')
    .filter((line) => !/^[|\s-]+$/.test(line))
    .map((line) => line.slice(1, -1).split('|'));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
    <section class="table-wrap" tabIndex={0} aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.map((cell) => (
              <th key={cell} scope="col">
                {coded(cell.trim())}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells) => (
            <tr key={cells[0]}>
              {cells.map((cell, index) => (
                <td key={index}>{coded(cell.trim())}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
