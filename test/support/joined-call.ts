/** A call between two phones made by hand, with Trunkline in the middle: a caller, and an agent behind a `sip:` target. */
import { answerChallenge } from '../../sip/auth/digest.js';
import type { CallRecord, TestApp } from './app.js';
import { type OutgoingInvite, type PeerMessage, SipPeer } from './bare-sip-peer.js';
import { eventually } from './media-engine.js';
import { RtpPhone, type SdpChange } from './rtp-phone.js';

/** One end: its signalling and its audio. */
export class HandPhone {
  /** The INVITE of the dialog and what answered it: what a request within it is made of. */
  dialog: { invite: OutgoingInvite; answer: PeerMessage; contact: string } | null = null;
  private cseq = 1;

  private constructor(
    readonly sip: SipPeer,
    readonly rtp: RtpPhone,
    private readonly serverPort: number,
  ) {}

  static async open(serverPort = 0): Promise<HandPhone> {
    return new HandPhone(await SipPeer.open(serverPort), await RtpPhone.open(), serverPort);
  }

  /** Registers for a minute as the user of a trunk. */
  async register(user: { username: string; password: string }): Promise<void> {
    const { sip } = this;
    const address = `<sip:${user.username}@127.0.0.1>`;
    const uri = `sip:127.0.0.1:${this.serverPort}`;
    const identity = {
      callId: `reg-${user.username}`,
      branch: '',
      from: `${address};tag=r`,
      to: address,
      uri,
      cseq: 0,
    };
    const lines = [`Contact: <sip:${user.username}@127.0.0.1:${sip.port}>`, 'Expires: 60'];
    sip.request('REGISTER', identity, lines, '', undefined, 1);
    const challenges = (await sip.next(401)).all('www-authenticate');
    const answer = answerChallenge({ status: 401, challenges }, { method: 'REGISTER', uri }, user);
    sip.request('REGISTER', identity, [...lines, `Authorization: ${answer?.value}`], '', undefined, 2);
    await sip.next(200);
  }

  get contactLine(): string[] {
    return [`Contact: ${this.sip.contact}`];
  }

  /** Calls a number; `lines` are further header lines. */
  invite(user: string, sdp: SdpChange = {}, lines: string[] = []): OutgoingInvite {
    return this.sip.invite({ user, sdp: this.rtp.sdp(sdp), lines });
  }

  /** The answer to `invite` has come: ACK, and audio goes where it says. */
  confirm(invite: OutgoingInvite, answer: PeerMessage): void {
    this.dialog = { invite, answer, contact: '' };
    this.sip.request('ACK', invite, [], '', answer);
    this.rtp.dial(answer.body);
  }

  /** Takes an INVITE that came. */
  answer(invite: PeerMessage, sdp: SdpChange = {}): void {
    this.rtp.dial(invite.body);
    this.sip.respond(invite, 200, this.contactLine, this.rtp.sdp(sdp));
    const [, local = ''] = /^(.*)$/.exec(invite.header('to')) ?? [];
    // Seen from here the dialog is the other way round.
    this.dialog = {
      invite: {
        callId: invite.header('call-id'),
        branch: '',
        from: `${local};tag=peer-tag`,
        to: invite.header('from'),
        uri: /<([^>]+)>/.exec(invite.header('contact'))?.[1] ?? '',
        cseq: 1,
      },
      answer: { ...invite, header: (name) => invite.header(name === 'to' ? 'from' : name) },
      contact: '',
    };
  }

  /** A request within the dialog. */
  ask(method: string, lines: string[] = [], body = '', contentType = 'application/sdp'): void {
    if (!this.dialog) throw new Error('There is no dialog.');
    this.cseq += 1;
    const { invite, answer } = this.dialog;
    this.sip.request(method, invite, [...this.contactLine, ...lines], body, answer, this.cseq, contentType);
  }

  /** re-INVITE, its final answer, and the ACK of a 200. */
  async reoffer(sdp: SdpChange): Promise<PeerMessage> {
    this.ask('INVITE', [], this.rtp.sdp(sdp));
    const answer = await this.sip.next([200, 400, 488, 491, 500]);
    if (answer.status === 200) this.acknowledge();
    return answer;
  }

  private acknowledge(): void {
    if (!this.dialog) return;
    const { invite, answer } = this.dialog;
    this.sip.request('ACK', invite, [], '', answer, this.cseq);
  }

  /** Waits for a re-INVITE and answers it. */
  async takeReoffer(sdp: SdpChange): Promise<PeerMessage> {
    const offer = await this.sip.next('INVITE');
    this.sip.respond(offer, 200, this.contactLine, this.rtp.sdp(sdp));
    await this.sip.next('ACK');
    return offer;
  }

  async hangUp(): Promise<void> {
    this.ask('BYE');
    await this.sip.next(200);
  }

  async close(): Promise<void> {
    await this.sip.close();
    this.rtp.close();
  }
}

export interface JoinedCall {
  number: string;
  caller: HandPhone;
  agent: HandPhone;
  /** The INVITE that the agent got. */
  invite: PeerMessage;
}

let nextNumber = 12025556001;

export interface JoinedWish {
  caller?: SdpChange;
  agent?: SdpChange;
  config?: Record<string, unknown>;
  endpoint?: Record<string, unknown>;
  lines?: string[];
}

/** A number whose endpoint is at this phone. */
export async function numberOfAgent(app: TestApp, agent: HandPhone, wish: JoinedWish = {}): Promise<string> {
  const number = `+${nextNumber++}`;
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    ...{ name: number, type: 'agent', target: `sip:agent@127.0.0.1:${agent.sip.port}` },
    provider_config: wish.config ?? {},
    ...wish.endpoint,
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
  return number;
}

/** Two phones that talk. The test closes them. */
export async function joinTwo(app: TestApp, wish: JoinedWish = {}): Promise<JoinedCall> {
  const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  const agent = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  const number = await numberOfAgent(app, agent, wish);
  const invited = caller.invite(number, wish.caller, wish.lines);
  const invite = await agent.sip.next('INVITE');
  agent.answer(invite, wish.agent);
  caller.confirm(invited, await caller.sip.next(200));
  await agent.sip.next('ACK');
  // The ACK has reached the call, and not only our SIP server.
  await answeredCall(app, number);
  return { number, caller, agent, invite };
}

async function answeredCall(app: TestApp, number: string): Promise<void> {
  await eventually(async () => {
    const { data } = await app.api<{ data: { to_number: string; answered_at: string | null }[] }>('GET', '/v1/calls');
    return data.some((call) => call.to_number === number && call.answered_at !== null);
  }, `the answer of ${number}`);
}

/** Hangs up as the caller, and answers the BYE that the agent gets; the record of the call. */
export async function endJoined(
  app: TestApp,
  { number, caller, agent }: Pick<JoinedCall, 'number' | 'caller' | 'agent'>,
): Promise<CallRecord> {
  await caller.hangUp();
  agent.sip.respond(await agent.sip.next('BYE'), 200);
  const record = await app.finishedCall(number);
  await Promise.all([caller.close(), agent.close()]);
  return record;
}
