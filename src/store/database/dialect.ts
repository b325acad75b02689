/** How a database writes what SQL has no common words for. */
export interface SqlDialect {
  /** An aggregate: the texts of all rows with commas between them. */
  joined(text: string): string;
  /** The character of this code. */
  character(code: number): string;
}
