/** Regular expressions of request fields, each with the sentence that a client gets when a value does not match. */

const rules = {
  keys: [
    '^[0-9A-Da-d*#w]{1,64}$',
    'must be 1 to 64 of the keys 0 to 9, A to D, * and #, with w for a pause of half a second',
  ],
  dialPrefix: ['^\\+\\d{1,15}$', 'must be + and 1 to 15 digits'],
  digits: ['^\\d{0,15}$', 'must be at most 15 digits'],
  email: ['^[^@\\s]+@[^@\\s]+$', 'must be an email address'],
  clock: ['^([01]\\d|2[0-3]):[0-5]\\d$', 'must be a time of day, like 09:30'],
  numberPrefix: ['^\\+?\\d{1,15}$', 'must be 1 to 15 digits, with or without + before them'],
  token: ['^[\\x21-\\x7e]+$', 'must be printable ASCII characters without spaces'],
  asciiText: ['^[\\x20-\\x7e]*$', 'must be printable ASCII characters'],
  host: ['^[A-Za-z0-9.:\\[\\]-]+$', 'must be a host name or an IP address'],
  sipHeader: ['^X-[A-Za-z0-9-]{1,64}$', 'must be X- followed by 1 to 64 letters, digits and hyphens'],
  httpHeader: ["^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", 'must be the name of an HTTP header'],
  variableName: ['^[A-Za-z_][A-Za-z0-9_]{0,63}$', 'must be the name of a variable: letters, digits and _'],
  awsRegion: ['^[a-z]{2}(-[a-z]+)+-\\d{1,2}$', 'must be a region such as us-east-1'],
  webhookSecret: ['^whsec_[A-Za-z0-9+/]{16,}={0,2}$', 'must be whsec_ followed by at least 16 characters of base64'],
  /** Names: without control characters (Unicode's Cc), line separators, and what is invisible or turns the direction of text around. */
  text: [
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern excludes them
    /^[^\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$/.source,
    'must be text without control characters, invisible ones and those that change the direction of text',
  ],
  recordingToken: [/^[A-Za-z0-9_-]{22}(\.wav)?$/.source, 'must be the address of a recording'],
} as const satisfies Record<string, readonly [source: string, rule: string]>;

/** The source of a pattern, for a schema. */
export const patterns = Object.fromEntries(Object.entries(rules).map(([name, [source]]) => [name, source])) as {
  readonly [name in keyof typeof rules]: string;
};

const sentences = new Map<string, string>(Object.values(rules).map(([source, rule]) => [source, rule]));

/** What a value of this pattern must be, as the end of a sentence; undefined for an unknown pattern. */
export function patternRule(source: string): string | undefined {
  return sentences.get(source);
}
