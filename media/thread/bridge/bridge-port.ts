/** The other side of a bridge on another media thread: a port carries packets and frames as bytes, keys as text, and the end of the bridge. */
import type { MessagePort } from 'node:worker_threads';
import type { PhoneCodec } from '../../engine.js';
import {
  emptyRtpView,
  parseRtp,
  type RtpView,
  readUint32,
  rtpHeaderBytes,
  writeRtpHeader,
  writeUint32,
} from '../../rtp/packet.js';
import type { OverrideEnd } from '../session/playout-override.js';
import type { BridgePeer } from './bridge.js';

/** The first byte of a message holds the codec and the kind of message. */
const codecs = ['PCMU', 'PCMA', 'G722', 'OPUS', 'event'] as const;
const codecMask = 0x07;
const heardFlag = 0x20;
const restartedFlag = 0x40;
const frameFlag = 0x80;
/** Samples start at even bytes; a packet's samples have their timestamp before them. */
const frameAt = 2;
const heardAt = 6;

type Message = Uint8Array | string | { end: OverrideEnd } | { terms: string };

export class BridgePort implements BridgePeer {
  /** Not known on this thread; if the other phone has no telephone events, it misses the keys of this one. */
  readonly takesEvents = true;
  private readonly view = emptyRtpView();
  private over = false;

  constructor(
    private readonly port: MessagePort,
    /** The bridge side on this thread. */
    private readonly near: () => BridgePeer,
  ) {
    port.on('message', (message: Message) => this.receive(message));
    port.on('close', () => this.end('closed'));
  }

  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    const message = new Uint8Array(1 + rtpHeaderBytes + payload.length);
    const inner = message.subarray(1);
    message[0] = codecs.indexOf(codec) | (restarted ? restartedFlag : 0);
    writeRtpHeader(inner, packet.payloadType, packet.marker, packet.sequence, packet.timestamp, packet.ssrc);
    inner.set(payload, rtpHeaderBytes);
    this.post(message);
  }

  termsCame(terms: string): void {
    this.post({ terms });
  }

  heardCame(timestamp: number, bytes: Uint8Array): void {
    const message = new Uint8Array(heardAt + bytes.length);
    message[0] = heardFlag;
    writeUint32(message, frameAt, timestamp);
    message.set(bytes, heardAt);
    this.post(message);
  }

  frameCame(bytes: Uint8Array, codec: PhoneCodec): void {
    const message = new Uint8Array(frameAt + bytes.length);
    message[0] = codecs.indexOf(codec) | frameFlag;
    message.set(bytes, frameAt);
    this.post(message);
  }

  keyCame(digit: string): void {
    this.post(digit);
  }

  /** The side on this thread has ended. */
  endCame(by: OverrideEnd): void {
    this.post({ end: by });
    this.over = true;
    this.port.close();
  }

  private post(message: Message): void {
    if (!this.over) this.port.postMessage(message);
  }

  private receive(message: Message): void {
    if (this.over) return;
    if (typeof message === 'string') this.near().keyCame(message);
    else if ('end' in message) this.end(message.end);
    else if ('terms' in message) this.near().termsCame(message.terms);
    else {
      const [kind = 0] = message;
      const codec = codecs[kind & codecMask] ?? 'PCMU';
      const inner = message.subarray(1);
      if (kind & frameFlag) {
        if (codec !== 'event') this.near().frameCame(message.subarray(frameAt), codec);
      } else if (kind & heardFlag) this.near().heardCame(readUint32(message, frameAt), message.subarray(heardAt));
      else if (parseRtp(inner, this.view)) {
        this.near().packetCame(this.view, inner.subarray(rtpHeaderBytes), codec, (kind & restartedFlag) !== 0);
      }
    }
  }

  private end(by: OverrideEnd): void {
    if (this.over) return;
    this.over = true;
    this.port.close();
    this.near().endCame(by);
  }
}
