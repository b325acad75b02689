/** Reads and writes RTCP compound packets (RFC 3550 section 6). Reading never throws. */
import { readUint32, writeUint32 } from './packet.js';
import type { ReportFigures } from './receiver-stats.js';

const senderReport = 200;
const receiverReport = 201;
const sourceDescription = 202;
const goodbye = 203;

/** One report block. Delays in 1/65536 s. */
export interface ReportBlock extends ReportFigures {
  ssrc: number;
  lastSenderReport: number;
  delaySinceLast: number;
}

export interface RtcpReading {
  /** SSRC of the reporter, from the first report; null without one. */
  reporter: number | null;
  /** The far side's sender report, with the middle 32 bits of its NTP time. */
  senderReport: { ssrc: number; middleNtp: number; packets: number } | null;
  blocks: ReportBlock[];
  bye: boolean;
}

export interface RtcpWriting {
  ssrc: number;
  cname: string;
  /** Present when we sent RTP since the last report. */
  sender: { ntpSeconds: number; ntpFraction: number; rtpTimestamp: number; packets: number; bytes: number } | null;
  block: ReportBlock | null;
  bye: boolean;
}

/** null when the packet is not a well-formed compound packet (A.2). */
export function readRtcp(packet: Uint8Array): RtcpReading | null {
  const reading: RtcpReading = { reporter: null, senderReport: null, blocks: [], bye: false };
  let at = 0;
  while (at < packet.length) {
    if (at + 4 > packet.length || packet[at]! >> 6 !== 2) return null;
    const end = at + 4 + ((packet[at + 2]! << 8) | packet[at + 3]!) * 4;
    if (end > packet.length) return null;
    const count = packet[at]! & 0x1f;
    const type = packet[at + 1]!;
    if (type === senderReport || type === receiverReport) {
      const blocks = at + (type === senderReport ? 28 : 8);
      if (blocks + count * 24 > end) return null;
      reading.reporter ??= readUint32(packet, at + 4);
      if (type === senderReport) {
        reading.senderReport = {
          ssrc: readUint32(packet, at + 4),
          middleNtp: ((readUint32(packet, at + 8) << 16) | (readUint32(packet, at + 12) >>> 16)) >>> 0,
          packets: readUint32(packet, at + 20),
        };
      }
      for (let i = 0; i < count; i++) reading.blocks.push(readBlock(packet, blocks + i * 24));
    } else if (type === goodbye) reading.bye = true;
    at = end;
  }
  return packet.length === 0 ? null : reading;
}

function readBlock(packet: Uint8Array, at: number): ReportBlock {
  return {
    ssrc: readUint32(packet, at),
    fractionLost: packet[at + 4]!,
    cumulativeLost: (readUint32(packet, at + 4) << 8) >> 8,
    highestSequence: readUint32(packet, at + 8),
    jitter: readUint32(packet, at + 12),
    lastSenderReport: readUint32(packet, at + 16),
    delaySinceLast: readUint32(packet, at + 20),
  };
}

/** SR or RR, then SDES with the CNAME, and a BYE if requested. */
export function writeRtcp(say: RtcpWriting): Uint8Array {
  const { sender, block } = say;
  const name = new TextEncoder().encode(say.cname).subarray(0, 255);
  const reportBytes = (sender ? 28 : 8) + (block ? 24 : 0);
  const chunkBytes = 4 + 4 + (Math.floor((2 + name.length) / 4) + 1) * 4;
  const packet = new Uint8Array(reportBytes + chunkBytes + (say.bye ? 8 : 0));
  writeHeader(packet, 0, sender ? senderReport : receiverReport, block ? 1 : 0, reportBytes);
  writeUint32(packet, 4, say.ssrc);
  if (sender) {
    writeUint32(packet, 8, sender.ntpSeconds);
    writeUint32(packet, 12, sender.ntpFraction);
    writeUint32(packet, 16, sender.rtpTimestamp);
    writeUint32(packet, 20, sender.packets);
    writeUint32(packet, 24, sender.bytes);
  }
  if (block) writeBlock(packet, sender ? 28 : 8, block);
  writeHeader(packet, reportBytes, sourceDescription, 1, chunkBytes);
  writeUint32(packet, reportBytes + 4, say.ssrc);
  packet[reportBytes + 8] = 1; // CNAME
  packet[reportBytes + 9] = name.length;
  packet.set(name, reportBytes + 10);
  if (say.bye) {
    const at = reportBytes + chunkBytes;
    writeHeader(packet, at, goodbye, 1, 8);
    writeUint32(packet, at + 4, say.ssrc);
  }
  return packet;
}

function writeHeader(packet: Uint8Array, at: number, type: number, count: number, bytes: number): void {
  packet[at] = 0x80 | count;
  packet[at + 1] = type;
  packet[at + 2] = (bytes / 4 - 1) >> 8;
  packet[at + 3] = bytes / 4 - 1;
}

function writeBlock(packet: Uint8Array, at: number, block: ReportBlock): void {
  writeUint32(packet, at, block.ssrc);
  writeUint32(packet, at + 4, (block.fractionLost << 24) | (block.cumulativeLost & 0xffffff));
  writeUint32(packet, at + 8, block.highestSequence);
  writeUint32(packet, at + 12, block.jitter);
  writeUint32(packet, at + 16, block.lastSenderReport);
  writeUint32(packet, at + 20, block.delaySinceLast);
}
