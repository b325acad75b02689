export const modes = ['live', 'test'] as const;
export type Mode = (typeof modes)[number];

/** The records a query may see. Every query on tenant records requires a scope. */
export interface Scope {
  organizationId: string;
  mode: Mode;
}

/** A part of a list, newest first, and how many there are in all. */
export interface Page<T> {
  data: T[];
  total: number;
}

export interface Slice {
  limit: number;
  offset: number;
}
