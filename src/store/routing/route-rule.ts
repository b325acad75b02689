/** One rule of a number, in the API's words; the first that fits a call decides. */
export interface RouteRule {
  endpoint_id: string;
  /** Share among neighbouring rules that fit as well. */
  weight?: number;
  /** Only at these times, in an IANA time zone. Days are 1 (Monday) to 7, times `HH:MM`, `end` exclusive. */
  schedule?: { timezone: string; days?: number[]; start?: string; end?: string };
  /** Only for callers whose number begins so. */
  from_prefix?: string;
}
