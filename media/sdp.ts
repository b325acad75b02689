/** Offer and answer (RFC 3264) for one audio stream with telephone-event. A refused offer or answer changes nothing. */
import { type MediaDescription, parse, type SessionDescription } from 'sdp-transform';
import { codecFacts, phoneCodecs, staticCodecs } from './codecs.js';
import { type CryptoLine, readCryptoLines, writeCryptoLine } from './crypto-lines.js';
import { CryptoNegotiation, type MediaKeys } from './crypto-negotiation.js';
import { type MediaDirection, MediaError, type PhoneCodec, type SrtpPolicy } from './engine.js';
import { type OpusParameters, opusDefaults, ourOpus, readOpusParameters } from './opus-parameters.js';

/** The result of a negotiation. */
export interface AgreedMedia {
  codec: PhoneCodec;
  /** Payload type we send with. */
  payloadType: number;
  /** Payload types that the far side may send. */
  codecByPayloadType: ReadonlyMap<number, PhoneCodec>;
  /** Payload types of RFC 4733 events in both directions; null when not agreed. */
  telephoneEvent: { send: number; receive: number } | null;
  /** Clock of these events: the audio clock, if the far side conforms to RFC 4733. */
  eventClockKhz: number;
  /** The Opus parameters that the far side wants to receive; only used with Opus. */
  opus: OpusParameters;
  ptimeMs: number;
  address: string;
  port: number;
  rtcpPort: number;
  rtcpMux: boolean;
  /** We may send. */
  send: boolean;
  /** The far side may send. */
  receive: boolean;
  /** The far side put the call on hold: `sendonly`, `inactive` or `c=0.0.0.0`. */
  held: boolean;
  /** Master keys of both directions; null without encryption. */
  srtp: MediaKeys | null;
}

export interface LocalMedia {
  address: string;
  rtpPort: number;
  /** In order of preference. */
  codecs: readonly PhoneCodec[];
  /** Default `off`. */
  srtp?: SrtpPolicy;
}

const maxSdpBytes = 16_384;
const maxMediaLines = 16;
const firstDynamicPayloadType = 96;
const mirrored: Record<MediaDirection, MediaDirection> = {
  sendrecv: 'sendrecv',
  sendonly: 'recvonly',
  recvonly: 'sendonly',
  inactive: 'inactive',
};

/** Telephone events (RFC 4733) of one clock. */
interface EventFormat {
  clockKhz: number;
  payloadType: number;
}

/** A stream of the far side, as described by its SDP. */
interface RemoteStream {
  codecs: { name: PhoneCodec; payloadType: number; opus: OpusParameters }[];
  events: EventFormat[];
  ptimeMs: number;
  address: string;
  port: number;
  rtcpPort: number;
  rtcpMux: boolean;
  direction: MediaDirection;
  /** `RTP/SAVP`. */
  secure: boolean;
  crypto: CryptoLine[];
}

/** The negotiation of one session. The version in our `o=` line rises only when our SDP changes (RFC 3264 section 8). */
export class SdpNegotiation {
  agreed: AgreedMedia | null = null;
  /** The SDP we sent last; empty before. */
  localSdp = '';
  private version = 0;
  private body = '';
  /** Media lines of the dialog: ours at `audioLine`, the others refused. The number of lines never shrinks (RFC 3264 section 8). */
  private refusedLines: string[] = [];
  private audioLine = 0;
  /** The direction we want; kept until an offer of ours changes it. */
  private wanted: MediaDirection = 'sendrecv';
  private pendingOffer: MediaDirection | null = null;
  /** Payload types of the dialog, which keep their meaning (RFC 3264 section 8.3.2); `event/8` stands for events with an 8 kHz clock. */
  private readonly numbers = new Map<string, number>();
  private readonly crypto: CryptoNegotiation;

  constructor(
    private readonly local: LocalMedia,
    private readonly sessionId: string,
  ) {
    this.crypto = new CryptoNegotiation(local.srtp ?? 'off');
  }

  /** Creates our answer. Throws `MediaError` and leaves the state unchanged when the offer cannot be met. */
  answer(offer: string): string {
    const { stream, line, lines } = readAudio(offer, this.audioLine, (each) => this.crypto.check(each));
    const crypto = this.crypto.answer(stream, this.agreed?.srtp ?? null);
    const keys = crypto?.keys ?? null;
    const { agreed, direction } = agree(stream, this.local.codecs, this.wanted, this.agreed?.held ?? false, keys);
    this.audioLine = line;
    this.refusedLines = lines;
    this.agreed = agreed;
    this.pendingOffer = null;
    for (const { name, payloadType } of stream.codecs) this.numbers.set(name, payloadType);
    for (const { clockKhz, payloadType } of stream.events) this.numbers.set(`event/${clockKhz}`, payloadType);
    const events = agreed.telephoneEvent?.send;
    const audio = describeAudio(this.local.rtpPort, [[agreed.codec, agreed.payloadType]], {
      events: events === undefined ? [] : [{ clockKhz: agreed.eventClockKhz, payloadType: events }],
      ptimeMs: agreed.ptimeMs,
      rtcpMux: agreed.rtcpMux,
      direction,
      secure: stream.secure,
      crypto: crypto ? [crypto.line] : [],
    });
    return this.describe(audio);
  }

  /** Creates our offer: every allowed codec, the current one first. Another `direction` than the last puts the far side on hold, or resumes. */
  offer(direction: MediaDirection = this.wanted): string {
    const inUse = this.agreed?.codec;
    const names = [...this.local.codecs].sort((a, b) => Number(b === inUse) - Number(a === inUse));
    const codecs = names.map((codec): [PhoneCodec, number] => [codec, this.numberOf(codec)]);
    this.pendingOffer = direction;
    const audio = describeAudio(this.local.rtpPort, codecs, {
      events: this.ourEvents(),
      ptimeMs: this.agreed?.ptimeMs ?? 20,
      rtcpMux: this.agreed?.rtcpMux ?? false,
      direction,
      ...this.crypto.offer(this.agreed?.srtp ?? null),
    });
    return this.describe(audio);
  }

  /** Applies the far side's answer to our offer; a provisional answer may be followed by another. */
  accept(answer: string, provisional: boolean): void {
    if (this.pendingOffer === null)
      throw new MediaError('bad_sdp', 'An SDP answer arrived, but no offer of ours is open.');
    const { stream } = readAudio(answer, this.audioLine, () => {}, this.audioLine);
    const keys = this.crypto.accept(stream);
    const { agreed } = agree(stream, this.local.codecs, this.pendingOffer, this.agreed?.held ?? false, keys);
    const receive = new Map(agreed.codecByPayloadType);
    for (const codec of this.local.codecs) receive.set(this.numberOf(codec), codec);
    const ours = this.ourEvents().find(({ clockKhz }) => clockKhz === agreed.eventClockKhz);
    const events = agreed.telephoneEvent && {
      send: agreed.telephoneEvent.send,
      receive: ours?.payloadType ?? agreed.telephoneEvent.receive,
    };
    this.agreed = { ...agreed, codecByPayloadType: receive, telephoneEvent: events };
    this.wanted = this.pendingOffer;
    if (!provisional) this.pendingOffer = null;
  }

  /** The payload type of a codec: ours, unless the far side assigned another. */
  private numberOf(codec: PhoneCodec): number {
    return this.numbered(codec, codecFacts[codec].payloadType);
  }

  private ourEvents(): EventFormat[] {
    const clocks = new Map(this.local.codecs.map((codec) => [codecFacts[codec].clockKhz, codecFacts[codec]]));
    return [...clocks].map(([clockKhz, { eventPayloadType }]) => ({
      clockKhz,
      payloadType: this.numbered(`event/${clockKhz}`, eventPayloadType),
    }));
  }

  private numbered(name: string, usual: number): number {
    let number = this.numbers.get(name) ?? usual;
    const taken = [...this.numbers].filter(([other]) => other !== name).map(([, each]) => each);
    if (!this.numbers.has(name) && taken.includes(number))
      for (number = firstDynamicPayloadType; taken.includes(number); ) number += 1;
    this.numbers.set(name, number);
    return number;
  }

  private describe(audio: string[]): string {
    const lines: string[] = [];
    const count = Math.max(this.refusedLines.length, this.audioLine + 1);
    for (let i = 0; i < count; i++) {
      if (i === this.audioLine) lines.push(...audio);
      else lines.push(this.refusedLines[i] ?? 'm=audio 0 RTP/AVP 0');
    }
    const body = ['s=-', `c=IN IP4 ${this.local.address}`, 't=0 0', ...lines, ''].join('\r\n');
    if (body !== this.body) this.version += 1;
    this.body = body;
    const origin = `o=- ${this.sessionId} ${this.version} IN IP4 ${this.local.address}`;
    this.localSdp = `v=0\r\n${origin}\r\n${body}`;
    return this.localSdp;
  }
}

function describeAudio(
  port: number,
  codecs: [PhoneCodec, number][],
  stream: Pick<RemoteStream, 'events' | 'ptimeMs' | 'rtcpMux' | 'direction' | 'secure' | 'crypto'>,
): string[] {
  const payloads = [...codecs.map(([, payloadType]) => payloadType), ...stream.events.map((each) => each.payloadType)];
  const lines = [`m=audio ${port} ${stream.secure ? 'RTP/SAVP' : 'RTP/AVP'} ${payloads.join(' ')}`];
  for (const [codec, payloadType] of codecs) {
    lines.push(`a=rtpmap:${payloadType} ${codecFacts[codec].rtpmap}`);
    if (codec === 'OPUS') lines.push(`a=fmtp:${payloadType} ${ourOpus}`);
  }
  for (const { clockKhz, payloadType } of stream.events)
    lines.push(`a=rtpmap:${payloadType} telephone-event/${clockKhz * 1000}`, `a=fmtp:${payloadType} 0-16`);
  lines.push(`a=ptime:${stream.ptimeMs}`, 'a=maxptime:60', `a=${stream.direction}`);
  if (stream.rtcpMux) lines.push('a=rtcp-mux');
  lines.push(...stream.crypto.map(writeCryptoLine));
  return lines;
}

function agree(
  remote: RemoteStream,
  preferred: readonly PhoneCodec[],
  wanted: MediaDirection,
  heldBefore: boolean,
  srtp: AgreedMedia['srtp'],
): { agreed: AgreedMedia; direction: MediaDirection } {
  const name = preferred.find((codec) => remote.codecs.some((offered) => offered.name === codec));
  const chosen = remote.codecs.find((offered) => offered.name === name);
  if (!chosen) throw incompatible('has no codec in common with us');
  const oldHold = remote.address === '0.0.0.0';
  // RFC 3264 section 8.4: an unspecified address is the old form of hold; such a peer can only send.
  const theirs = oldHold ? (remote.direction === 'inactive' ? 'inactive' : 'sendonly') : remote.direction;
  const direction = both(mirrored[theirs], wanted);
  // While we do not send, the far side's direction only mirrors ours.
  const held = sends(wanted) ? !receives(theirs) : heldBefore;
  const { clockKhz, ptimesMs } = codecFacts[chosen.name];
  const events = remote.events.find((each) => each.clockKhz === clockKhz) ?? remote.events[0];
  const agreed: AgreedMedia = {
    codec: chosen.name,
    payloadType: chosen.payloadType,
    opus: chosen.opus,
    eventClockKhz: events?.clockKhz ?? clockKhz,
    codecByPayloadType: new Map(
      remote.codecs.filter((codec) => preferred.includes(codec.name)).map((codec) => [codec.payloadType, codec.name]),
    ),
    telephoneEvent: events ? { send: events.payloadType, receive: events.payloadType } : null,
    ptimeMs: ptimesMs.findLast((ms) => ms <= remote.ptimeMs) ?? remote.ptimeMs,
    address: remote.address,
    port: remote.port,
    rtcpPort: remote.rtcpPort,
    rtcpMux: remote.rtcpMux,
    send: sends(direction),
    receive: receives(direction),
    held,
    srtp,
  };
  return { agreed, direction };
}

function sends(direction: MediaDirection): boolean {
  return direction === 'sendrecv' || direction === 'sendonly';
}

function receives(direction: MediaDirection): boolean {
  return direction === 'sendrecv' || direction === 'recvonly';
}

function both(a: MediaDirection, b: MediaDirection): MediaDirection {
  const send = sends(a) && sends(b);
  const receive = receives(a) && receives(b);
  if (send) return receive ? 'sendrecv' : 'sendonly';
  return receive ? 'recvonly' : 'inactive';
}

/** Picks a stream: the dialog's audio line if there is one, else the first that fits; also returns all lines as refusals. */
function readAudio(
  text: string,
  knownLine: number,
  check: (stream: RemoteStream) => void,
  onlyLine?: number,
): { stream: RemoteStream; line: number; lines: string[] } {
  const sdp = readSdp(text);
  if (sdp.media.length === 0) throw incompatible('has no media line');
  if (sdp.media.length > maxMediaLines) throw incompatible(`has more than ${maxMediaLines} media lines`);
  const lines = sdp.media.map((media) => `m=${media.type} 0 ${media.protocol} ${media.payloads ?? '0'}`);
  const order = sdp.media.map((_, line) => line);
  if (onlyLine === undefined) order.sort((a, b) => Number(b === knownLine) - Number(a === knownLine));
  let refusal: MediaError | null = null;
  for (const line of onlyLine === undefined ? order : [onlyLine]) {
    const media = sdp.media[line];
    if (!media) continue;
    try {
      const stream = readStream(sdp, media);
      check(stream);
      return { stream, line, lines };
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      if (refusal === null || media.type === 'audio') refusal = error;
    }
  }
  throw refusal ?? incompatible('does not answer the audio line');
}

function readSdp(text: string): SessionDescription {
  if (text.length > maxSdpBytes) throw new MediaError('bad_sdp', `The SDP is larger than ${maxSdpBytes} bytes.`);
  let sdp: SessionDescription;
  try {
    sdp = parse(text);
  } catch {
    throw new MediaError('bad_sdp', 'The SDP cannot be read.');
  }
  if (sdp.version !== 0 || !sdp.origin) throw new MediaError('bad_sdp', 'The SDP has no v= or o= line.');
  for (const media of sdp.media) {
    if (typeof media.port !== 'number' || !media.type || !media.protocol) {
      throw new MediaError('bad_sdp', 'The SDP has a media line that cannot be read.');
    }
  }
  return sdp;
}

function readStream(sdp: SessionDescription, media: MediaDescription): RemoteStream {
  if (media.type !== 'audio') throw incompatible('has no audio');
  if (media.port === 0) throw incompatible('has its audio switched off');
  if (media.port > 65535) throw new MediaError('bad_sdp', 'The SDP has a media port over 65535.');
  if (media.protocol !== 'RTP/AVP' && media.protocol !== 'RTP/SAVP')
    throw incompatible(`asks for ${media.protocol.slice(0, 40)}; we speak RTP/AVP and RTP/SAVP`);
  const connection = media.connection ?? sdp.connection;
  if (!connection) throw new MediaError('bad_sdp', 'The SDP has no c= line.');
  const address = String(connection.ip).split('/')[0]!;
  if (connection.version !== 4 || !isIpv4(address)) throw incompatible('has a media address that is not IPv4');
  const ofRtcp = media.rtcp?.port;
  return {
    ...readFormats(media),
    ptimeMs: readPtime(media),
    address,
    port: media.port,
    rtcpPort: typeof ofRtcp === 'number' && ofRtcp > 0 && ofRtcp <= 65535 ? ofRtcp : Math.min(media.port + 1, 65535),
    rtcpMux: media.rtcpMux !== undefined,
    direction: media.direction ?? sdp.direction ?? 'sendrecv',
    secure: media.protocol === 'RTP/SAVP',
    crypto: readCryptoLines(media.crypto),
  };
}

function readFormats(media: MediaDescription): Pick<RemoteStream, 'codecs' | 'events'> {
  const codecs: RemoteStream['codecs'] = [];
  const events: EventFormat[] = [];
  for (const format of String(media.payloads ?? '').split(' ')) {
    const payloadType = Number(format);
    if (!/^\d{1,3}$/.test(format) || payloadType > 127) continue;
    const mapping = media.rtp.find((rtp) => rtp.payload === payloadType);
    const called = mapping ? String(mapping.codec).toUpperCase() : staticCodecs[payloadType];
    const clockKhz = (mapping?.rate ?? 8000) / 1000;
    const name = phoneCodecs.find((codec) => codec === called && codecFacts[codec].clockKhz === clockKhz);
    if (name) {
      const parameters = media.fmtp.find((fmtp) => fmtp.payload === payloadType)?.config;
      const opus = parameters === undefined ? opusDefaults : readOpusParameters(parameters);
      codecs.push({ name, payloadType, opus });
    } else if (called === 'TELEPHONE-EVENT' && (clockKhz === 8 || clockKhz === 48))
      events.push({ clockKhz, payloadType });
  }
  return { codecs, events };
}

/** A key of what the phone can receive: a phone with an equal key can take its packets unchanged. The two G.711 laws convert by a table. */
export function formatKey(agreed: AgreedMedia | null): string {
  if (agreed === null) return '';
  const { codec, opus, ptimeMs, eventClockKhz } = agreed;
  if (codec === 'PCMU' || codec === 'PCMA') return 'G711';
  return codec === 'OPUS' ? JSON.stringify({ codec, opus, ptimeMs, eventClockKhz }) : codec;
}

/** Packet time that the far side wants to receive: a multiple of 10 ms from 10 to 60. */
function readPtime(media: MediaDescription): number {
  const wanted = typeof media.ptime === 'number' ? media.ptime : 20;
  const most = typeof media.maxptime === 'number' ? media.maxptime : 60;
  return Math.max(10, Math.floor(Math.min(wanted, most, 60) / 10) * 10);
}

function isIpv4(address: string): boolean {
  const parts = address.split('.');
  return parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
}

function incompatible(what: string): MediaError {
  return new MediaError('incompatible_media', `The SDP ${what}.`);
}
