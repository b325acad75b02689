/** RTCP of one session: sends our reports to the phone and checks the source of its reports. */
import type { RemoteInfo } from 'node:dgram';
import { Reports } from '../../rtp/reports.js';
import { readRtcp } from '../../rtp/rtcp.js';
import type { RtpSender } from '../../rtp/sender.js';
import type { RtpSocketPair } from '../../rtp/socket.js';
import type { AgreedMedia } from '../../sdp.js';
import type { FromPhone } from './from-phone.js';

export interface RtpDestination {
  address: string;
  port: number;
}

export interface RtcpExchangeHooks {
  /** null before anything is agreed. */
  far(): { agreed: AgreedMedia; destination: RtpDestination } | null;
}

export class RtcpExchange {
  readonly reports: Reports;

  constructor(
    cname: string,
    private readonly pair: RtpSocketPair,
    private readonly sender: RtpSender,
    private readonly inward: FromPhone,
    private readonly hooks: RtcpExchangeHooks,
  ) {
    this.reports = new Reports(cname, performance.timeOrigin);
  }

  tick(nowMs: number): void {
    const report = this.reports.due(nowMs, this.sender, this.inward.stats);
    if (report) this.send(report);
  }

  bye(nowMs: number): void {
    this.send(this.reports.bye(nowMs, this.sender, this.inward.stats));
  }

  /** `muxed`: the packet arrived on the RTP socket. */
  packet(bytes: Uint8Array, from: RemoteInfo, muxed: boolean, nowMs: number): void {
    const { inward } = this;
    const reading = readRtcp(bytes);
    const sdpPort = this.hooks.far()?.agreed.rtcpPort ?? 0;
    if (!inward.source.takesReport(from, muxed, sdpPort, reading?.reporter ?? null)) inward.foreign += 1;
    else if (reading === null) inward.malformed += 1;
    else {
      if (!this.reports.read(reading, nowMs, this.sender)) inward.malformed += 1;
      if (reading.senderReport) inward.reported(reading.senderReport, nowMs);
    }
  }

  private send(packet: Uint8Array): void {
    const far = this.hooks.far();
    if (!far) return;
    const { agreed, destination } = far;
    if (agreed.rtcpMux) this.pair.sendRtcp(packet, destination.port, destination.address, true);
    else if (agreed.address === destination.address) this.pair.sendRtcp(packet, agreed.rtcpPort, destination.address);
    // Behind a NAT only the convention is left: RTCP on the port after RTP.
    else if (destination.port < 65535) this.pair.sendRtcp(packet, destination.port + 1, destination.address);
  }
}
