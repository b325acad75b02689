/** The calls of one simulated provider: each connection gets an agent and a record of its messages, whatever carries them. */
import { type AgentBehaviour, behaviour, SimulatedAgent, type SimulatedAgentEvent } from './agent.js';
import type { ProviderEncoder, ProviderProtocol, ProviderState, Wire } from './provider-protocol.js';

export interface SimulatorOptions extends Partial<AgentBehaviour> {
  /** 0: any free port. */
  port: number;
  host?: string;
  /** Encrypted connections; both PEM. Not for plain TCP. */
  tls?: { key: string; cert: string };
  onEvent?: (event: SimulatedAgentEvent | { type: 'connected' } | { type: 'closed'; code: number }) => void;
}

/** One connection to the simulated provider. */
export interface SimulatedCall {
  /** Messages of the client, parsed; of a long call only the first ones. */
  received: Record<string, unknown>[];
  /** The messages sent to the client. */
  sent: Record<string, unknown>[];
  events: SimulatedAgentEvent[];
  agent: SimulatedAgent;
  wire: Wire;
  url: URL;
}

/** What a server does for a connection. */
export interface Connection
  extends Pick<Wire, 'sendText' | 'sendBinary' | 'dropUnsent' | 'stopReading' | 'close' | 'die'> {
  /** A message as the record of the call has it; null: not at all. */
  describe(message: string | Uint8Array): Record<string, unknown> | null;
}

export interface ServedCall {
  message(data: string | Buffer): void;
  ended(code: number): void;
}

const mostKept = 10_000;

export class Simulation {
  readonly calls: SimulatedCall[] = [];
  readonly state: ProviderState = new Map();
  private readonly how: AgentBehaviour;
  private readonly onEvent: NonNullable<SimulatorOptions['onEvent']>;

  constructor(
    readonly protocol: ProviderProtocol,
    options: SimulatorOptions,
  ) {
    const { port: _port, host: _host, tls: _tls, onEvent = () => {}, ...changes } = options;
    this.how = { ...behaviour, ...changes };
    this.onEvent = onEvent;
  }

  begin(url: URL, connection: Connection): ServedCall {
    const { protocol, onEvent } = this;
    const keep = (list: Record<string, unknown>[], message: Record<string, unknown> | null) => {
      if (message !== null && list.length < mostKept) list.push(message);
    };
    let closing: NodeJS.Timeout | undefined;
    const wire: Wire = {
      ...connection,
      send(message) {
        const text = JSON.stringify(message);
        keep(call.sent, connection.describe(text));
        connection.sendText(text);
      },
      sendBinary(bytes) {
        keep(call.sent, connection.describe(bytes));
        connection.sendBinary(bytes);
      },
      closeAfter(ms, code, reason) {
        closing ??= setTimeout(() => connection.close(code, reason), ms);
      },
    };
    const call: SimulatedCall = {
      received: [],
      sent: [],
      events: [],
      wire,
      url,
      agent: new SimulatedAgent(this.how, protocol.late, (event) => {
        call.events.push(event);
        onEvent(event);
      }),
    };
    this.calls.push(call);
    onEvent({ type: 'connected' });
    const encoder: ProviderEncoder = protocol.open(wire, call.agent, url, this.state);
    call.agent.encodeWith(encoder);
    return {
      message(data) {
        keep(call.received, connection.describe(data));
        encoder.message(data);
      },
      ended(code) {
        clearTimeout(closing);
        call.agent.end();
        onEvent({ type: 'closed', code });
      },
    };
  }
}
