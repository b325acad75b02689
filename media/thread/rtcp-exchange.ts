/** RTCP of one session: our reports to where the phone wants them, and its reports from the host that we know. */
import { Reports } from '../rtp/reports.js';
import { readRtcp } from '../rtp/rtcp.js';
import type { RtpSender } from '../rtp/sender.js';
import type { RtpSocketPair } from '../rtp/socket.js';
import type { AgreedMedia } from '../sdp.js';
import type { FromPhone } from './from-phone.js';

export interface RtpDestination {
  address: string;
  port: number;
}

export class RtcpExchange {
  readonly reports: Reports;

  constructor(
    cname: string,
    private readonly pair: RtpSocketPair,
    private readonly sender: RtpSender,
    private readonly inward: FromPhone,
    /** null while nothing is agreed. */
    private readonly far: () => { agreed: AgreedMedia; destination: RtpDestination } | null,
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

  packet(bytes: Uint8Array, address: string, nowMs: number): void {
    // RTCP has no sequence by which a stranger could prove himself.
    if (!this.inward.source.knowsHost(address)) {
      this.inward.foreign += 1;
      return;
    }
    const reading = readRtcp(bytes);
    if (reading) this.reports.read(reading, nowMs, this.sender);
    else this.inward.malformed += 1;
  }

  private send(packet: Uint8Array): void {
    const far = this.far();
    if (!far) return;
    const { agreed, destination } = far;
    if (agreed.rtcpMux) this.pair.sendRtcp(packet, destination.port, destination.address, true);
    else if (agreed.address === destination.address) this.pair.sendRtcp(packet, agreed.rtcpPort, destination.address);
    // Behind a NAT only the convention is left.
    else if (destination.port < 65535) this.pair.sendRtcp(packet, destination.port + 1, destination.address);
  }
}
