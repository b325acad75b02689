/** The part of drachtio-fsmrf that we use, typed as it behaves; the package has no types of its own. */
declare module 'drachtio-fsmrf' {
  import type { EventEmitter } from 'node:events';

  /** A SIP dialog in the shape that the library drives: it sends re-INVITEs, waits for the BYE, and ends what it does not want. */
  interface FsmrfDialog {
    readonly remote: { sdp: string };
    modify(sdp: string): Promise<string>;
    destroy(): unknown;
    once(event: 'destroy', listener: () => void): unknown;
  }

  type FsmrfCallback<T> = (err: Error | null, result?: T) => void;

  /** What the library calls of drachtio-srf. With a callback the promise is not used. */
  interface FsmrfSignalling {
    createUAC(
      uri: string,
      options: { headers: Record<string, string>; localSdp?: string },
      progress?: object,
      callback?: FsmrfCallback<FsmrfDialog>,
    ): Promise<FsmrfDialog> | undefined;
    createUAS(
      req: object,
      res: object,
      options: { localSdp: string },
      callback?: FsmrfCallback<FsmrfDialog>,
    ): Promise<FsmrfDialog> | undefined;
  }

  /** The event-socket connection beneath a server or an endpoint. It reconnects by itself unless `closing` is set. */
  interface FsmrfConnection {
    closing?: boolean;
    on(event: string, listener: (...args: never[]) => void): unknown;
    removeAllListeners(event?: string): unknown;
    disconnect(): void;
  }

  interface FsmrfEndpoint extends EventEmitter {
    /** Of the channel. */
    readonly uuid: string;
    /** The SDP that FreeSWITCH sent last. */
    readonly local: { sdp: string };
    /** null when `destroy` is over. */
    readonly dialog: FsmrfDialog | null;
    /** null when the channel is gone. */
    readonly conn: FsmrfConnection | null;
    readonly connected: boolean;
    modify(sdp: string): Promise<string>;
    getChannelVariables(withMedia: true): Promise<Record<string, string | number | undefined>>;
    /** Rejects when the channel is gone; never answers when it goes meanwhile. */
    api(command: string, words: string): Promise<{ getBody(): string }>;
    /** `event`: the subclass of a custom event. The listener gets its body, parsed when it is JSON. */
    addCustomEventListener(event: string, listener: (body: unknown) => void): void;
    /** Resolves when the BYE of FreeSWITCH arrived; emits `destroy` only when FreeSWITCH ended it. */
    destroy(): Promise<void>;
  }

  interface FsmrfMediaServer extends EventEmitter {
    readonly conn: FsmrfConnection;
    /** From the last HEARTBEAT; 0 before the first. */
    readonly maxSessions: number;
    readonly currentSessions: number;
    /** The library adds headers of its own to `headers`. Rejects an offer with SAVP. */
    createEndpoint(options: { remoteSdp?: string; headers: Record<string, string> }): Promise<FsmrfEndpoint>;
    /** As `createEndpoint`, and passes FreeSWITCH's answer to `createUAS` first. */
    connectCaller(
      req: { body: string },
      res: object,
      options: { headers: Record<string, string> },
    ): Promise<{ endpoint: FsmrfEndpoint }>;
    disconnect(): void;
  }

  export default class Mrf {
    constructor(signalling: FsmrfSignalling);
    /** Neither resolves nor rejects when the password is wrong. */
    connect(options: {
      address: string;
      port: number;
      secret: string;
      /** Where FreeSWITCH connects to, once for each endpoint. */
      listenAddress: string;
      advertisedAddress: string;
      profile: string;
    }): Promise<FsmrfMediaServer>;
  }

  export type { FsmrfDialog, FsmrfEndpoint, FsmrfMediaServer, FsmrfSignalling };
}
