/** How a database writes what SQL has no common words for. */
export interface SqlDialect {
  /** An aggregate: the texts of all rows with commas between them. */
  joined(text: string): string;
  /** The column of `call_events` by which events follow each other across calls. */
  readonly eventOrder: 'id' | 'position';
  /** The character of this code. */
  character(code: number): string;
}
