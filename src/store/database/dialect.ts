/** How a database writes what SQL has no common words for. */
export interface SqlDialect {
  /** An aggregate: the texts of all rows with commas between them. */
  joined(text: string): string;
  /** The column of `call_events` by which events follow each other across calls. */
  readonly eventOrder: 'id' | 'position';
  /** Whether calls lie in months by the time in their ids: a query that names no range of ids reads all of them. */
  readonly callsByMonth: boolean;
  /** The character of this code. */
  character(code: number): string;
}
