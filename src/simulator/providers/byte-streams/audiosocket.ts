/**
 * A simulated AudioSocket server, as Asterisk's `AudioSocket()` connects to. There is no flush: it sends at the pace of speech, and stops when
 * it is interrupted.
 */
import { audioSocketCodec } from '../../../../media/agents/providers/streams/audiosocket.js';
import { decodeAudio, encodeAudio } from '../codec.js';
import type { ProviderProtocol } from '../provider-protocol.js';

const headerBytes = 3;
const rateOf: Readonly<Record<number, number>> = { 16: 8000, 18: 16000, 19: 24000, 22: 48000 };
const framesPerSec = 50;

export const audiosocket: ProviderProtocol = {
  provider: 'audiosocket',
  path: '',
  late: false,
  refuse: () => null,
  byteStream: {
    over: 'tcp',
    codec: () => ({
      ...audioSocketCodec,
      decode: (message) => Buffer.from(message),
      encodeError: () => Buffer.from([0xff, 0, 1, 4]),
      durationMs: (message) => {
        const rateHz = rateOf[message[0] ?? 0];
        return rateHz === undefined ? 0 : ((message.length - headerBytes) / 2 / rateHz) * 1000;
      },
      describe: (message) => {
        const [kind = 0] = Buffer.from(message as Uint8Array);
        if (rateOf[kind] !== undefined) return null;
        return { type: `0x${kind.toString(16).padStart(2, '0')}`, payload: message.slice(headerBytes).toString() };
      },
    }),
  },
  open(wire, agentInput) {
    let began = false;
    let audioKind = 0x10;
    let frameBytes = 0;
    const send = (kind: number, payload: Uint8Array) => {
      const message = Buffer.alloc(headerBytes + payload.length);
      message[0] = kind;
      message.writeUInt16BE(payload.length, 1);
      message.set(payload, headerBytes);
      wire.sendBinary(message);
    };
    return {
      message(data) {
        const message = Buffer.from(data);
        const kind = message[0] ?? 0;
        const payload = message.subarray(headerBytes);
        const rateHz = rateOf[kind];
        if (kind === 0x03) agentInput.read(payload.toString('latin1'));
        else if (kind === 0x00) wire.close(1000);
        else if (rateHz !== undefined) {
          if (!began) {
            began = true;
            audioKind = kind;
            frameBytes = (rateHz / framesPerSec) * 2;
            agentInput.begin({ listensHz: rateHz, speaksHz: rateHz });
            agentInput.greet();
          }
          agentInput.hear(decodeAudio(payload, 'l16'));
        }
      },
      ...{ heard() {}, said() {}, finished() {} },
      interrupted: () => wire.dropUnsent?.(),
      audio(samples) {
        const bytes = encodeAudio(samples, 'l16');
        for (let at = 0; at < bytes.length; at += frameBytes) send(audioKind, bytes.subarray(at, at + frameBytes));
      },
      hangUp() {
        wire.dropUnsent?.();
        send(0x00, new Uint8Array(0));
        wire.close(1000);
      },
      expire: () => wire.close(1000),
    };
  },
};
