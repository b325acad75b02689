/**
 * What an agent said becomes a transcript when it was heard. Text and audio of an item come apart and ahead of time; a mark behind the last
 * audio tells when the text is due, and an interruption cuts it where the caller stopped hearing it.
 */

interface Item {
  text: string;
  itemId: string | undefined;
  /** Of the mark behind its audio; null while more may come. */
  mark: string | null;
}

/** No mark of an agent begins with a NUL: it could not be told from ours. */
const MARK = '\0said:';
/** Text of items that never end. */
const MAX_CHARS = 64 * 1024;

export class SpokenText {
  #items: Item[] = [];
  #marks = 0;

  constructor(
    private readonly tell: (text: string) => void,
    private readonly mark: (name: string) => void,
  ) {}

  said(text: string, itemId?: string): void {
    const last = this.#items.at(-1);
    const open = last?.mark === null && last.itemId === itemId ? last : { text: '', itemId, mark: null };
    if (open !== last) this.#items.push(open);
    if (open.text.length < MAX_CHARS) open.text += text;
  }

  /** No more audio of these items will come. */
  saidAll(): void {
    const open = this.#items.filter((each) => each.mark === null);
    if (open.length === 0) return;
    this.#marks += 1;
    const mark = `${MARK}${this.#marks}`;
    for (const item of open) item.mark = mark;
    this.mark(mark);
  }

  /** True when the mark was one of these. */
  reached(name: string, cleared: boolean): boolean {
    if (!name.startsWith(MARK)) return false;
    const index = cleared ? -1 : this.#items.findLastIndex((item) => item.mark === name);
    // Items before it were played too, if their end was never told.
    for (const item of this.#items.splice(0, index + 1)) this.#tell(item.text);
    return true;
  }

  /** The item that was playing is cut, in proportion; what came behind it was never heard. */
  cleared(heard: { itemId?: string; heardMs: number; droppedMs: number }): void {
    const items = this.#items.splice(0);
    const playing = Math.max(
      0,
      items.findIndex((item) => item.itemId === heard.itemId),
    );
    const totalMs = heard.heardMs + heard.droppedMs;
    items.forEach((item, index) => {
      if (index < playing || heard.droppedMs === 0) this.#tell(item.text);
      else if (index === playing && totalMs > 0) this.#tell(cut(item.text, heard.heardMs / totalMs));
    });
  }

  /** The agent is gone: what is left was played as far as anybody knows. */
  finish(): void {
    for (const item of this.#items.splice(0)) this.#tell(item.text);
  }

  #tell(text: string): void {
    const trimmed = text.trim();
    if (trimmed !== '') this.tell(trimmed);
  }
}

/** The first part of a text, to the end of the last whole word. */
function cut(text: string, share: number): string {
  const length = Math.floor(text.length * Math.min(1, share));
  if (length >= text.length) return text;
  const end = /\s/.test(text[length] ?? ' ') ? length : text.lastIndexOf(' ', length);
  return end <= 0 ? '' : `${text.slice(0, end).trimEnd()}…`;
}
