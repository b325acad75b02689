/** One routing rule of a number, in the form of the API; the first matching rule applies. */
export interface RouteRule {
  endpoint_id: string;
  /** The share of this rule among adjacent rules that also match. */
  weight?: number;
  /** The times at which the rule applies, in an IANA time zone. Days are 1 (Monday) to 7, times `HH:MM`, `end` exclusive. */
  schedule?: { timezone: string; days?: number[]; start?: string; end?: string };
  /** The rule applies only to callers whose number has this prefix. */
  from_prefix?: string;
}
