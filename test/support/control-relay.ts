/** A TCP port in front of a SIP server's control port, so that a test can cut the connection. */
import { connect, createServer, type Server, type Socket } from 'node:net';

export class ControlRelay {
  readonly #sockets = new Set<Socket>();
  #relay: Server | null = null;

  /** `target`: the control port at the time of each connection. */
  constructor(
    readonly port: number,
    private readonly target: () => { host: string; port: number },
  ) {}

  async open(): Promise<void> {
    const relay = createServer((socket) => {
      const onward = connect(this.target());
      for (const [from, to] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => undefined);
        from.on('close', () => to.destroy());
        from.pipe(to);
      }
    });
    this.#relay = relay;
    await new Promise<void>((resolve) => relay.listen(this.port, '127.0.0.1', resolve));
  }

  async cut(): Promise<void> {
    const relay = this.#relay;
    this.#relay = null;
    const closed = new Promise((resolve) => (relay ? relay.close(resolve) : resolve(null)));
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    await closed;
  }
}
