/**
 * A telephone: a SIP server instance of its own and, per call, RTP sockets of its own. It shares nothing with the server that it calls, so what it
 * measures is what a caller hears.
 */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import type { PhoneCodec } from '../../../media/engine.js';
import { SdpNegotiation } from '../../../media/sdp.js';
import { openSipGateway } from '../../../sip/gateway.js';
import { type CallLeg, SipError, type SipGateway } from '../../../sip/leg.js';
import { TrunkTable } from '../../../sip/trunk/trunk-table.js';
import { type CallFaults, noticeLimitMs } from '../faults.js';
import { type CallReport, reportCall, type SignallingOutcome } from '../report.js';
import type { Impairments } from './impairments.js';
import { PhoneRtp, type PhoneRtpListener } from './phone-rtp.js';
import { signallingTimes } from './signalling-times.js';
import type { CallerSound } from './voice.js';

export interface CallTarget {
  host: string;
  port: number;
  transport: 'udp' | 'tcp';
}

export interface CallPlan {
  to: string;
  from: string;
  /** Credentials for a digest challenge. */
  credentials?: { username: string; password: string };
  speech: CallerSound;
  /** Whether chirps are inserted, whose round trip is measured. */
  markers: boolean;
  /** Codecs in order of preference. */
  codecs: PhoneCodec[];
  ptimeMs: number;
  impairments: Impairments;
  faults?: CallFaults;
  /** The phone hangs up this long after the answer. */
  durationMs: number;
  ringTimeoutMs: number;
  /** DTMF events (RFC 4733), sent `digitsAfterMs` after the answer. `w` is a pause. */
  digits?: string;
  digitsAfterMs?: number;
  /** Receives audio and figures while the call runs. */
  ear?: PhoneRtpListener;
}

/** A finished call. */
export interface CapturedCall {
  report(): CallReport;
  /** The received audio, mono at 8 kHz, from the first packet on. */
  samples(): Int16Array;
  /** The first sample that arrived at this time (of `performance.now`) or later. */
  placeAt(arrivalMs: number): number;
}

export interface Phone {
  readonly localAddress: string;
  /** Resolves when the call is over, with any result. `signal` hangs up. */
  call(plan: CallPlan, signal: AbortSignal): Promise<CapturedCall>;
  /** Hangs up the remaining calls and closes everything. */
  close(): Promise<void>;
}

const silentLog = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const defaultDigitsAfterMs = 1000;
/** Audio beyond this is not kept for analysis. */
const keepAudioSec = 600;
const lookupLimitMs = 5000;

/** Rejects when the target has no address or no socket can be bound. */
export async function openPhone(
  target: CallTarget,
  options: { timersMs?: { t1?: number }; losesAcks?: boolean } = {},
): Promise<Phone> {
  const address = await resolve(target.host);
  const localAddress = await addressTowards(address, target.port);
  const gateway = await openSipGateway({
    server: {
      kind: 'embedded',
      listen: [{ transport: target.transport, host: localAddress, port: 0 }],
      product: 'trunkline-simulator',
      timersMs: options.timersMs,
      lostMethods: options.losesAcks ? ['ACK'] : [],
    },
    trunks: new TrunkTable(),
    log: silentLog,
  });
  const uri = `sip:${address}:${target.port};transport=${target.transport}`;
  return {
    localAddress,
    call: (plan, signal) => new OneCall(gateway, uri, localAddress, plan).run(signal),
    close: () => gateway.stop(0),
  };
}

class OneCall {
  private readonly course: SignallingOutcome;
  constructor(
    private readonly gateway: SipGateway,
    private readonly uri: string,
    private readonly localAddress: string,
    private readonly plan: CallPlan,
  ) {
    this.course = {
      to: plan.to,
      from: plan.from,
      target: uri,
      startedAt: new Date(),
      sipCallId: null,
      invitedMs: null,
      ringingMs: null,
      answeredMs: null,
      endedMs: performance.now(),
      quietMs: null,
      reoffered: null,
      endedBy: 'nobody',
      cause: 'unspecified',
      sipStatus: null,
      failure: null,
      digitsSent: '',
    };
  }

  async run(signal: AbortSignal): Promise<CapturedCall> {
    const { plan, course } = this;
    const line = await PhoneRtp.open(this.localAddress, { ...plan, keepAudioSec });
    const local = { address: this.localAddress, rtpPort: line.port, codecs: plan.codecs };
    const sdp = new SdpNegotiation(local, String(randomInt(1, 2 ** 40)));
    const reoffer = async (leg: CallLeg, codec: PhoneCodec, over: AbortSignal) => {
      local.codecs = [codec];
      const offer = sdp.offer();
      await line.prepare(offer, [codec]);
      const answer = await leg.reoffer(offer, over);
      course.reoffered = 'ok' in answer ? 200 : answer.refused;
      if ('ok' in answer && !accept(sdp, answer.ok, line, false)) course.reoffered = 488;
      if (course.reoffered !== 200) local.codecs = plan.codecs;
    };
    try {
      const leg = await this.dial(line, sdp, signal);
      if (leg) await this.talk(leg, line, sdp, reoffer, signal);
    } finally {
      course.endedMs = performance.now();
      line.close();
    }
    return {
      report: () => reportCall(course, line, plan),
      samples: () => line.heard.samples,
      placeAt: (arrivalMs) => line.heard.placeAt(arrivalMs),
    };
  }

  private async dial(line: PhoneRtp, negotiation: SdpNegotiation, signal: AbortSignal): Promise<CallLeg | null> {
    const { plan, course } = this;
    try {
      const leg = await this.gateway.dial(
        {
          to: plan.to,
          from: plan.from,
          gateways: [{ uri: this.uri, auth: plan.credentials }],
          ringTimeoutMs: plan.ringTimeoutMs,
          offerFor: async () => {
            course.invitedMs = performance.now();
            await line.prepare(negotiation.offer(), plan.codecs);
            return negotiation.offer().replace('a=ptime:20', `a=ptime:${plan.ptimeMs}`);
          },
          onProgress: ({ status, sdp }) => {
            if (status >= 180) course.ringingMs ??= performance.now();
            if (sdp && accept(negotiation, sdp, line, true) && plan.faults?.speaksEarly) line.start();
          },
        },
        signal,
      );
      course.answeredMs = performance.now();
      course.sipCallId = leg.sipCallId;
      const onWire = signallingTimes(this.gateway.trace(leg.sipCallId), Date.now() - performance.now());
      course.invitedMs = onWire.invitedMs ?? course.invitedMs;
      course.ringingMs = onWire.ringingMs ?? course.ringingMs;
      course.answeredMs = onWire.answeredMs ?? course.answeredMs;
      this.gateway.forgetTrace(leg.sipCallId);
      return leg;
    } catch (error) {
      if (!(error instanceof SipError)) throw error;
      course.cause = error.hangupCause;
      course.sipStatus = error.sipStatus ?? null;
      course.endedBy = error.code === 'rejected' ? 'far side' : error.code === 'cancelled' ? 'us' : 'nobody';
      course.failure = error.sipStatus ? `${error.sipStatus} ${error.hangupCause}` : error.message;
      return null;
    }
  }

  private async talk(
    leg: CallLeg,
    line: PhoneRtp,
    negotiation: SdpNegotiation,
    reoffer: (leg: CallLeg, codec: PhoneCodec, over: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const { plan, course } = this;
    if (!accept(negotiation, leg.remoteSdp, line, false)) {
      await leg.hangup('incompatible_media');
      course.endedBy = 'us';
      course.cause = 'incompatible_media';
      return;
    }
    leg.onReoffer(async (offer) => {
      if (offer === null)
        return { sdp: negotiation.offer(), acked: (answer) => void accept(negotiation, answer, line, false) };
      try {
        await line.prepare(offer, plan.codecs);
        const sdp = negotiation.answer(offer);
        if (negotiation.agreed) line.agree(negotiation.agreed);
        return { sdp };
      } catch {
        return { refuse: 488 };
      }
    });
    line.start();
    const over = new AbortController();
    const digits = timer(plan.digits ? (plan.digitsAfterMs ?? defaultDigitsAfterMs) : null, over.signal).then((due) => {
      if (due && plan.digits && line.sendDigits(plan.digits)) course.digitsSent = plan.digits;
    });
    const change = plan.faults?.reoffer;
    const changed = timer(change?.afterMs ?? null, over.signal).then((due) => {
      if (due && change) return reoffer(leg, change.codec, over.signal).catch(() => undefined); // the call ended in between
    });
    const enough = timer(plan.durationMs, AbortSignal.any([over.signal, signal])).then(() => null);
    let end = await Promise.race([leg.ended, enough]);
    const bye = plan.faults?.bye ?? 0;
    if (end === null && bye !== 0) {
      line.fallSilent();
      course.quietMs = performance.now();
      const late = timer(bye === 'lost' ? noticeLimitMs : bye, AbortSignal.any([over.signal, signal])).then(() => null);
      end = await Promise.race([leg.ended, late]);
    }
    over.abort();
    await Promise.all([digits, changed]);
    course.endedBy = end === null ? 'us' : end.by === 'remote' ? 'far side' : 'nobody';
    course.cause = end === null ? 'normal_clearing' : end.cause;
    course.endedMs = performance.now();
    line.frameTimer.stop();
    await leg.hangup();
  }
}

/** False: the answer is not usable, and nothing changed. */
function accept(negotiation: SdpNegotiation, sdp: string, line: PhoneRtp, provisional: boolean): boolean {
  try {
    negotiation.accept(sdp, provisional);
  } catch {
    return false;
  }
  if (negotiation.agreed) line.agree(negotiation.agreed);
  return true;
}

/** True when the time passed, false when the signal aborted first. `null`: waits for the signal only. */
function timer(ms: number | null, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const end = (due: boolean) => {
      clearTimeout(running);
      signal.removeEventListener('abort', aborted);
      resolve(due);
    };
    const aborted = () => end(false);
    const running = ms === null ? undefined : setTimeout(end, ms, true);
    signal.addEventListener('abort', aborted);
  });
}

async function resolve(host: string): Promise<string> {
  if (isIPv4(host)) return host;
  const limit = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error('no answer of the name server')), lookupLimitMs).unref();
  });
  try {
    return (await Promise.race([lookup(host, { family: 4 }), limit])).address;
  } catch (error) {
    throw new Error(
      `${host} has no IPv4 address: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`,
    );
  }
}

/** The local address that routes to the target; nothing is sent. */
function addressTowards(address: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    const failed = (error: Error) => {
      socket.close();
      reject(new Error(`No route to ${address}: ${(error as NodeJS.ErrnoException).code ?? error.message}`));
    };
    socket.once('error', failed);
    socket.connect(port, address, (error?: Error) => {
      if (error) return failed(error);
      const local = socket.address().address;
      socket.close(() => resolve(local));
    });
  });
}
