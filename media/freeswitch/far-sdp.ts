/**
 * The SDP of FreeSWITCH as the far side may see it, and the far side's SDP as our own engine may see it. FreeSWITCH negotiates; here only
 * codecs are left out, directions changed, and the `o=` line kept that of one session (RFC 3264 section 8).
 */
import type { MediaDirection } from '../engine.js';

const directions = /^a=(sendrecv|sendonly|recvonly|inactive)\r?\n/gm;

/** The direction that the writer of this SDP wants. The old form of hold, `c=0.0.0.0`, counts as `sendonly`. */
export function directionOf(sdp: string): MediaDirection {
  const audio = audioPart(sdp);
  const written = /^a=(sendrecv|sendonly|recvonly|inactive)\s*$/m;
  const found = written.exec(audio)?.[1] ?? written.exec(sdp.slice(0, sdp.indexOf('m=')))?.[1] ?? 'sendrecv';
  const connection = /^c=IN IP4 (\S+)/m.exec(audio)?.[1] ?? /^c=IN IP4 (\S+)/m.exec(sdp)?.[1];
  if (connection === '0.0.0.0' && found === 'sendrecv') return 'sendonly';
  return found as MediaDirection;
}

export function withDirection(sdp: string, direction: MediaDirection): string {
  const plain = sdp.replace(directions, '').replace(/\r?\n?$/, '\r\n');
  return plain.replace(/^(m=audio [^\n]*\n(?:(?!m=)[^\n]*\n)*)/m, `$1a=${direction}\r\n`);
}

/** What remains of a direction when one side wants less: `sendrecv` and `sendonly` give `sendonly`. */
export function limitedTo(direction: MediaDirection, wanted: MediaDirection): MediaDirection {
  const sends = (each: MediaDirection) => each === 'sendrecv' || each === 'sendonly';
  const receives = (each: MediaDirection) => each === 'sendrecv' || each === 'recvonly';
  const send = sends(direction) && sends(wanted);
  const receive = receives(direction) && receives(wanted);
  if (send) return receive ? 'sendrecv' : 'sendonly';
  return receive ? 'recvonly' : 'inactive';
}

/** The encoding name of the first audio codec; null without one. */
export function codecOf(sdp: string): string | null {
  const [first] = formats(sdp).filter(({ name }) => !/^(telephone-event|CN)$/i.test(name));
  return first?.name.toUpperCase() ?? null;
}

export function hasTelephoneEvent(sdp: string): boolean {
  return formats(sdp).some(({ name }) => /^telephone-event$/i.test(name));
}

/** `RTP/SAVP` or DTLS-SRTP: FreeSWITCH's answer comes before it can be told to bridge. */
export function isSecure(sdp: string): boolean {
  return /^m=audio \d+ \S*SAVP/m.test(sdp);
}

/** DTLS keys belong to one server, so such a call cannot move to another. */
export function usesDtls(sdp: string): boolean {
  return /^m=audio \d+ UDP\/TLS\//m.test(sdp);
}

export function withoutTelephoneEvent(sdp: string): string {
  return keepFormats(sdp, ({ name }) => !/^telephone-event$/i.test(name));
}

/** For a server behind NAT: the same ports at another address. */
export function withAddress(sdp: string, address: string): string {
  return sdp.replace(/^(c=IN IP4 |o=\S+ \S+ \S+ IN IP4 )\S+/gm, `$1${address}`);
}

/** Only these codecs, in this order, and telephone events of their clocks (RFC 4733 2.1). */
export function withCodecs(sdp: string, names: readonly string[]): string {
  const wanted = names.map((name) => name.toUpperCase());
  const rank = (name: string) => {
    const place = wanted.indexOf(name.toUpperCase());
    return place < 0 ? wanted.length : place;
  };
  const isWanted = ({ name }: Format) => wanted.includes(name.toUpperCase());
  const all = formats(sdp);
  const clocks = new Set(all.filter(isWanted).map(({ clock }) => clock));
  const events = all.filter(({ name }) => /^telephone-event$/i.test(name));
  const fitting = events.filter(({ clock }) => clocks.has(clock));
  const keptEvents = new Set((fitting.length > 0 ? fitting : events).map(({ payloadType }) => payloadType));
  return keepFormats(
    sdp,
    (format) => isWanted(format) || keptEvents.has(format.payloadType),
    (a, b) => rank(a.name) - rank(b.name),
  );
}

interface Format {
  payloadType: string;
  name: string;
  /** The RTP clock, in Hz. */
  clock: string;
}

const staticNames: Record<string, string> = { 0: 'PCMU', 3: 'GSM', 4: 'G723', 8: 'PCMA', 9: 'G722', 18: 'G729' };

function audioPart(sdp: string): string {
  const start = sdp.search(/^m=audio /m);
  if (start < 0) return '';
  const next = sdp.slice(start + 1).search(/^m=/m);
  return next < 0 ? sdp.slice(start) : sdp.slice(start, start + 1 + next);
}

function formats(sdp: string): Format[] {
  const audio = audioPart(sdp);
  const listed = /^m=audio \d+ \S+ (.*)$/m.exec(audio)?.[1]?.trim().split(' ') ?? [];
  return listed.map((payloadType) => {
    const [, name, clock] = new RegExp(`^a=rtpmap:${payloadType} ([^/\\s]+)(?:/(\\d+))?`, 'm').exec(audio) ?? [];
    return { payloadType, name: name ?? staticNames[payloadType] ?? '', clock: clock ?? '8000' };
  });
}

function keepFormats(
  sdp: string,
  keep: (format: Format) => boolean,
  order: (a: Format, b: Format) => number = () => 0,
): string {
  const all = formats(sdp);
  const kept = all.filter(keep).sort(order);
  const gone = new Set(all.filter((format) => !keep(format)).map(({ payloadType }) => payloadType));
  return sdp
    .replace(
      /^(m=audio \d+ \S+ ).*$/m,
      (_, start: string) => `${start}${kept.map((each) => each.payloadType).join(' ')}\r`,
    )
    .replace(/^a=(?:rtpmap|fmtp):(\d+) [^\n]*\n/gm, (line, payloadType: string) => (gone.has(payloadType) ? '' : line))
    .replace(/\r\r/g, '\r');
}

/** Our `o=` line over all SDPs of one session, also when it moves to another FreeSWITCH: the version rises with every change. */
export class SessionOrigin {
  #version = 0;
  #body = '';

  constructor(private readonly sessionId: string) {}

  mark(sdp: string): string {
    const body = sdp.replace(/^o=[^\n]*\n/m, '');
    if (body !== this.#body) this.#version += 1;
    this.#body = body;
    const address = /^o=\S+ \S+ \S+ (IN IP[46] \S+)/m.exec(sdp)?.[1]?.trim() ?? 'IN IP4 0.0.0.0';
    return sdp.replace(/^o=[^\n]*\n/m, `o=- ${this.sessionId} ${this.#version} ${address}\r\n`);
  }
}
