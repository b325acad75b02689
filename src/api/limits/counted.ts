/** What a request finds of its limits. */
export interface Counted {
  /** False: the limit of the second is used up, and the request was counted nowhere. */
  isLetThrough: boolean;
  /** Requests let through in the last second, this one among them. */
  usedInSecond: number;
  /** Milliseconds until the oldest of them is a second old: then one more may come. */
  secondMs: number;
  /** Requests let through on this UTC day, this one among them; 0 where days are not counted. */
  usedInDay: number;
}
