/** Assembles the server: sockets, transactions, dialogs and the control port, opened and closed together. */
import { randomBytes } from 'node:crypto';
import type { Core } from './assembly.js';
import { ControlServer } from './control/control.js';
import { DialogSender } from './dialogs/dialog-sender.js';
import { DialogTable } from './dialogs/dialogs.js';
import { Subscriptions } from './dialogs/subscriptions.js';
import { FlowProxy } from './flows/flow-proxy.js';
import { parseMessage, SipRequest, SipResponse } from './message/message.js';
import { isSaneResponse } from './message/sanity.js';
import { InviteAdmission } from './overload/admission.js';
import { ownTime, RunningClock } from './overload/running-clock.js';
import { LOOPBACK_NETS, Sources } from './overload/sources.js';
import type { InviteToCancel, InviteToRefuse, SipServerOptions, SipServerStats } from './protocol.js';
import { DEFAULT_TIMERS, giveUpMs, SystemClock } from './transactions/timers.js';
import { TransactionTable } from './transactions/transaction-table.js';
import { DEFAULT_CONNECTION_LIMITS } from './transport/connection.js';
import { LocalAddresses } from './transport/local-address.js';
import { type LocalIdentity, Network } from './transport/network.js';
import type { Source } from './transport/path.js';
import { TlsContexts, type TlsSettings } from './transport/tls.js';
import { Uac } from './uac/uac.js';
import { Answers } from './uas/answers.js';
import { Registrations } from './uas/registrations.js';
import { Uas } from './uas/uas.js';

const CONTROL_HOST = '127.0.0.1';
/** Limit for an outbound connection including its TLS handshake, in T1: 4 s. */
const CONNECT_LIMIT_T1 = 8;
/** Limit for the TLS handshake of an inbound connection, in T1: 10 s. */
const HANDSHAKE_LIMIT_T1 = 20;
/** Limit for an incomplete message on a TCP connection, in T1: 30 s. */
const HALF_MESSAGE_T1 = 60;

export interface RunningServer {
  control: { host: string; port: number; secret: string };
  addresses: Network['addresses'];
  stats(): SipServerStats;
  /** Sets the networks whose messages are not counted. */
  trust(nets: readonly string[]): void;
  /** Sets certificates and authorities for new connections. Throws, and keeps the old ones, when they cannot be read. */
  secure(settings: TlsSettings): void;
  /** A report of the main thread: it is alive, and the media threads run this late. */
  reported(lagMs: number): void;
  /** The main thread has read the question of `askMain`. */
  mainAnswered(): void;
  /** The application has taken up these INVITEs; their first responses wait for something else. */
  takenUp(transactionIds: readonly string[]): void;
  /** Refuses an INVITE that the server before this one left unanswered. */
  refuse(invite: InviteToRefuse): void;
  /** Cancels an INVITE that the server before this one sent. */
  cancelInvite(invite: InviteToCancel): void;
  close(): Promise<void>;
}

/** `askMain`: asks the main thread for a sign of life, which `mainAnswered` takes; without it the thread is not watched. */
export async function openServer(
  options: SipServerOptions,
  failed: (error: unknown) => void,
  askMain?: () => void,
): Promise<RunningServer> {
  const timers = { ...DEFAULT_TIMERS, ...options.timersMs };
  const clock = new SystemClock(failed);
  const transactions = new TransactionTable(clock, timers);
  const dialogs = new DialogTable();
  const registrations = new Registrations(clock);
  const closing = new AbortController();
  const local = new LocalAddresses(options.externalIp ?? null, options.localNets ?? []);
  const monotonicMs = () => performance.now();
  const sources = new Sources(monotonicMs, options.limits, options.trusted ?? LOOPBACK_NETS);
  const running = new RunningClock(ownTime());
  running.start();
  const admission = new InviteAdmission(running.now, options.limits, running.readsOld);
  admission.watch(askMain);
  let messagesReceived = 0;
  let malformed = 0;
  let uas: Uas | null = null;
  let uac: Uac | null = null;
  let flows: FlowProxy | null = null;

  const dispatch = (bytes: Buffer, source: Source): void => {
    if (!uac || !uas || isKeepAlive(bytes)) return;
    messagesReceived++;
    if (!sources.mayBeRead(source.address)) return;
    const message = parseMessage(bytes);
    if (message instanceof SipRequest) {
      const take = (identity: LocalIdentity): void => {
        if (!flows?.request(message, source, identity)) uas?.receive(message, source, identity);
      };
      const identity = network.knownIdentity(source.back);
      if (identity) take(identity);
      else network.identity(source.back).then(take).catch(failed);
    } else if (message instanceof SipResponse && flows?.response(message)) return;
    else if (message instanceof SipResponse && isSaneResponse(message)) uac.receive(message, source);
    else {
      malformed++;
      sources.refused(source.address, 400);
    }
  };
  const receive = (bytes: Buffer, source: Source): void => {
    try {
      dispatch(bytes, source);
    } catch (error) {
      failed(error);
    }
  };

  const contexts = new TlsContexts(options.tls ?? {}, HANDSHAKE_LIMIT_T1 * timers.t1);
  const idle = {
    dialledMs: 2 * giveUpMs(timers),
    halfMessageMs: HALF_MESSAGE_T1 * timers.t1,
    limits: { ...DEFAULT_CONNECTION_LIMITS, ...options.limits },
    knows: (address: string) => sources.knows(address),
    inUse: (address: string, port: number) => registrations.uses(address, port) || dialogs.uses(address, port),
  };
  const connectMs = CONNECT_LIMIT_T1 * timers.t1;
  const network = await Network.open(options.listen, local, connectMs, receive, idle, contexts, options.lostMethods);
  const secret = randomBytes(24).toString('hex');
  let answers: Answers | null = null;
  const control = await ControlServer.listen(CONTROL_HOST, secret, {
    hostports: (localOnly) => network.hostports(localOnly),
    sip: (app, frame) => {
      try {
        if (frame.message instanceof SipResponse) answers?.respond(app, frame, frame.message);
        else uac?.request(app, frame);
      } catch (error) {
        failed(error);
        app.refuse(frame.messageId, 'Server error: the request could not be handled');
      }
    },
    gone: (app) => {
      uac?.gone(app);
      answers?.gone(app);
    },
  });
  const core: Core = {
    clock,
    timers,
    transactions,
    dialogs,
    network,
    control,
    sources,
    admission,
    product: options.product ?? null,
    closing: closing.signal,
  };
  const sender = new DialogSender(core, registrations);
  const subscriptions = new Subscriptions(core, sender);
  uac = new Uac(core, sender, registrations, subscriptions);
  answers = new Answers(core, sender, registrations, subscriptions);
  uas = new Uas(core, uac, answers, subscriptions);
  if (options.flowKey !== undefined) flows = new FlowProxy(core, options.flowKey, failed);
  const server = uas;

  return {
    control: { host: CONTROL_HOST, port: control.port, secret },
    addresses: network.addresses,
    stats: () => ({
      invitesReceived: server.invitesReceived,
      messagesReceived,
      malformed: malformed + server.malformed,
      retransmissionsSent: transactions.retransmissionsSent,
      shed: {
        overload: admission.refused,
        rateLimited: sources.limited,
        crowded: sources.crowded,
        silenced: sources.silenced,
        offenders: sources.offenders,
      },
      lagMs: admission.ownLagMs,
      live: {
        transactions: transactions.size,
        dialogs: dialogs.size,
        timers: clock.live,
        tcpConnections: network.tcpConnections,
      },
    }),
    trust: (nets) => sources.trust(nets),
    secure: (settings) => {
      contexts.replace(settings);
      network.renewCertificate();
    },
    reported: (lagMs) => admission.reported(lagMs),
    mainAnswered: () => admission.mainAnswered(),
    takenUp: (transactionIds) => {
      for (const id of transactionIds) admission.takenUp(id);
    },
    refuse: ({ raw, localTag, peer: { address, port } }) => {
      const request = parseMessage(Buffer.from(raw));
      const back = network.pathTo({ transport: 'udp', address, port });
      if (!(request instanceof SipRequest) || !back) return;
      const source: Source = { transport: 'udp', address, port, back };
      network
        .identity(back)
        .then((identity) => server.refuseLost(request, source, identity, localTag))
        .catch(failed);
    },
    cancelInvite: ({ head, next }) => {
      const invite = parseMessage(Buffer.from(head));
      if (invite instanceof SipRequest) uac?.cancelInvite(invite, next).catch(failed);
    },
    close: async () => {
      closing.abort();
      admission.close();
      running.close();
      await control.close();
      for (const dialog of dialogs.where(() => true)) dialogs.remove(dialog);
      transactions.clear();
      registrations.clear();
      await network.close();
    },
  };
}

/** CRLF, or the four zero bytes that some phones send to keep NAT bindings alive. */
function isKeepAlive(bytes: Buffer): boolean {
  return bytes.length <= 4 && bytes.every((byte) => byte === 13 || byte === 10 || byte === 0);
}
