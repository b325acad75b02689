/**
 * The part of drachtio-srf that we use, typed as it behaves (its own types declare the ports as strings and miss most callbacks). The rest
 * of `sip/` uses these types.
 */
import type { Socket } from 'node:net';
import Srf from 'drachtio-srf';

export interface StackMessage {
  /** The text as received, or as sent (the server echoes what went out). */
  raw: string;
  body: string;
  headers: Record<string, string>;
  get(name: string): string | undefined;
  has(name: string): boolean;
}

export interface StackRequest extends StackMessage {
  method: string;
  uri: string;
  msg: StackMessage;
  payload: { type: string | null; content?: string }[];
  source: 'network' | 'application';
  source_address: string;
  source_port: number;
  protocol: string;
  /** When the server received or sent it: `HH:MM:SS.uuuuuu`, UTC. */
  stackTime?: string;
  /** `address:port` of our listener, on requests outside a dialog. */
  receivedOn?: string;
  stackDialogId: string;
  stackTxnId: string;
  socket: Socket;
  cancel(callback: (err: Error | null) => void): void;
  on(event: 'response', listener: (res: StackResponse, ack: (opts?: { body?: string }) => void) => void): void;
  on(event: 'cancel', listener: (cancel: StackMessage) => void): void;
  on(event: 'update', listener: (req: StackRequest, res: StackResponse) => void): void;
}

export interface StackResponse extends StackMessage {
  status: number;
  reason: string;
  req: StackRequest;
  source_address: string;
  source_port: number;
  protocol: string;
  /** When the server received it, or sent it once that was confirmed: `HH:MM:SS.uuuuuu`, UTC. */
  stackTime?: string;
  stackDialogId: string;
  finalResponseSent: boolean;
  msg: StackMessage;
  send(
    status: number,
    options?: { headers?: Record<string, string>; body?: string },
    sent?: (err: unknown, message?: StackMessage) => void,
    acknowledged?: (prack: StackRequest) => void,
  ): void;
  send(
    status: number,
    reason: string,
    options?: { headers?: Record<string, string>; body?: string },
    sent?: (err: unknown, message?: StackMessage) => void,
  ): void;
}

type DialogRequestEvent = 'modify' | 'update' | 'info' | 'notify' | 'refer' | 'message';

export interface StackDialog {
  readonly id: string;
  type: 'uac' | 'uas';
  connected: boolean;
  req: StackRequest;
  res: StackResponse;
  socket: Socket;
  sip: { callId: string; localTag: string; remoteTag: string };
  local: { uri: string; sdp: string; contact: string };
  remote: { uri: string; sdp: string };
  agent: StackAgent;
  on(event: 'destroy', listener: (bye: StackRequest, reason?: string) => void): this;
  on(event: 'ack', listener: (ack: StackRequest) => void): this;
  on(event: DialogRequestEvent, listener: (req: StackRequest, res: StackResponse) => void): this;
  removeAllListeners(): this;
  destroy(
    options: { headers?: Record<string, string> },
    callback: (err: Error | null, bye?: StackRequest) => void,
  ): void;
}

export interface StackRequestOptions {
  method: string;
  uri?: string;
  headers?: Record<string, string>;
  body?: string;
  /** The next hop, when it is not the request-URI. */
  proxy?: string;
  stackDialogId?: string;
  /** Transaction of the INVITE that a CANCEL is for. */
  stackTxnId?: string;
  _socket?: Socket;
}

export interface StackAgent {
  request(options: StackRequestOptions, sent: (err: Error | null, req?: StackRequest) => void): void;
  wp: StackWire;
  mapServer: Map<Socket, unknown>;
}

/** The control connection beneath the library: frames as text. */
export interface StackWire {
  on(event: 'msg', listener: (socket: Socket, frame: string) => void): void;
  off(event: 'msg', listener: (socket: Socket, frame: string) => void): void;
  emit(event: 'msg', socket: Socket, frame: string): void;
  /** Returns the identifier of the frame; the answer of the server names it. */
  send(socket: Socket, frame: string): string;
  closing?: boolean;
  socket?: Socket;
  reconnectVars?: { retryTimer?: NodeJS.Timeout | null };
}

export interface UacOptions {
  headers?: Record<string, string>;
  /** Absent: the far side offers, and the library answers `recvonly`. */
  localSdp?: string;
  proxy?: string;
}

/** The error of `createUAC`: the final response is in `res`. */
export interface StackSipError extends Error {
  status?: number;
  res?: StackResponse;
}

export interface Stack {
  app: { client: StackAgent };
  connect(options: { host: string; port: number; secret: string; reconnect?: { retryMaxDelay: number } }): void;
  on(
    event: 'connect',
    listener: (err: Error | null, hostports?: string, version?: string, local?: string) => void,
  ): this;
  on(event: 'error', listener: (err: Error) => void): this;
  on(event: 'close', listener: () => void): this;
  use(handler: (req: StackRequest, res: StackResponse, next: () => void) => void): void;
  use(method: string, handler: (req: StackRequest, res: StackResponse, next: () => void) => void): void;
  createUAS(
    req: StackRequest,
    res: StackResponse,
    options: { localSdp: string; headers?: Record<string, string> },
    callback: (err: StackSipError | string | null, dialog?: StackDialog) => void,
  ): void;
  createUAC(
    uri: string,
    options: UacOptions,
    progress: {
      cbRequest: (err: Error | null, req?: StackRequest) => void;
      cbProvisional: (res: StackResponse) => void;
    },
    callback: (err: StackSipError | null, dialog?: StackDialog) => void,
  ): void;
  removeDialog(dialog: StackDialog): void;
}

/** A new, unconnected library instance. */
export function createStack(): Stack {
  return new Srf() as unknown as Stack;
}
