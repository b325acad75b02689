/** What one check of `doctor` found, and how to mend it. */
export interface Finding {
  check: string;
  level: 'ok' | 'warning' | 'failure';
  says: string;
  fix?: string;
}
