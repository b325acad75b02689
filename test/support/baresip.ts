/** baresip as a phone: a real one of other people's making, driven over its control socket. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort } from './port-ranges.js';

const program = 'baresip';

export interface BaresipEvent {
  type: string;
  param?: string;
  peeruri?: string;
}

export class Baresip {
  readonly events: BaresipEvent[] = [];
  #stopped: Promise<void> | null = null;
  /** What it heard in its call, as a WAV file; there after `stop`. */
  recording: Buffer = Buffer.alloc(0);
  readonly #waiting: { type: string; resolve(event: BaresipEvent): void }[] = [];

  private constructor(
    private readonly process: ChildProcess,
    private readonly control: Socket,
    private readonly folder: string,
    private readonly console: readonly string[],
    /** Of UDP and TCP; TLS is one above. */
    readonly sipPort: number,
  ) {
    let buffer = '';
    control.on('data', (data) => {
      buffer += data.toString();
      for (;;) {
        // Netstrings: `<length>:<json>,`
        const colon = buffer.indexOf(':');
        const length = Number(buffer.slice(0, colon));
        if (colon < 0 || buffer.length < colon + length + 2) return;
        const message = JSON.parse(buffer.slice(colon + 1, colon + 1 + length)) as { event?: boolean } & BaresipEvent;
        buffer = buffer.slice(colon + length + 2);
        if (message.event) this.#take(message);
      }
    });
    control.on('error', () => undefined);
  }

  /**
   * Starts a phone with one account (a line of baresip's `accounts` file, without the angle brackets' transport). It says what is in
   * `source` (a WAV file; default: silence), and with it records what it hears: `recording`. `more`: further lines of its settings.
   */
  static async start(account: string, source?: Uint8Array, more: readonly string[] = []): Promise<Baresip> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await Baresip.#startOnce(account, source, more);
      } catch (error) {
        // A port that was free a moment ago may be another test's by now.
        if (attempt === 3 || !/code 98/.test(String(error))) throw error;
      }
    }
  }

  static async #startOnce(account: string, source: Uint8Array | undefined, more: readonly string[]): Promise<Baresip> {
    if (spawnSync(program, ['-h']).error) {
      throw new Error('This test needs baresip: apt-get install baresip-core');
    }
    const folder = mkdtempSync(path.join(tmpdir(), 'baresip-'));
    // It takes the port above the SIP port too, for TLS.
    const sipPort = await freePort(24);
    const [controlPort, rtpPort] = [sipPort + 2, sipPort + 4];
    const modules = ['g711', 'aufile', 'aubridge', ...(source ? ['sndfile'] : [])].map((name) => `module ${name}.so`);
    const appModules = ['account', 'menu', 'ctrl_tcp'].map((name) => `module_app ${name}.so`);
    writeFileSync(
      path.join(folder, 'config'),
      [
        ...['poll_method epoll', `sip_listen 127.0.0.1:${sipPort}`, 'audio_player aubridge,nowhere'],
        ...[
          `audio_source aufile,${path.join(folder, 'silence.wav')}`,
          'audio_alert aubridge,nowhere',
          'module_path /usr/lib/baresip/modules',
        ],
        ...[`rtp_ports ${rtpPort}-${rtpPort + 19}`, `ctrl_tcp_listen 127.0.0.1:${controlPort}`],
        `snd_path ${folder}`,
        ...modules,
        ...appModules,
        ...more,
        '',
      ].join('\n'),
    );
    writeFileSync(path.join(folder, 'accounts'), `${account}\n`);
    writeFileSync(path.join(folder, 'contacts'), '');
    writeFileSync(path.join(folder, 'silence.wav'), source ?? silence(10));
    const child = spawn(program, ['-f', folder, '-4'], { stdio: ['ignore', 'pipe', 'pipe'] });
    const console: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => console.push(data.toString()));
    try {
      return new Baresip(child, await connected(controlPort, child), folder, console, sipPort);
    } catch (error) {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** What it wrote so far. */
  get output(): string {
    return this.console.join('');
  }

  /** Waits for a text on its console: what happened before the control socket was there has no event. */
  async says(text: string, limitMs = 8000): Promise<void> {
    const limit = performance.now() + limitMs;
    while (!this.output.includes(text)) {
      if (performance.now() > limit)
        throw new Error(`baresip did not say "${text}" within ${limitMs} ms:\n${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  command(command: string, params = ''): void {
    const json = JSON.stringify({ command, params, token: 'x' });
    this.control.write(`${json.length}:${json},`);
  }

  /** The next event of this type, also one that came before and was not taken. */
  next(type: string, limitMs = 8000): Promise<BaresipEvent> {
    const index = this.events.findIndex((event) => event.type === type);
    if (index >= 0) return Promise.resolve(this.events.splice(index, 1)[0] as BaresipEvent);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        const seen = this.events.map((event) => `${event.type} ${event.param ?? ''}`).join(', ');
        reject(new Error(`baresip had no ${type} within ${limitMs} ms, but ${seen || 'nothing'}\n${this.output}`));
      }, limitMs);
      this.#waiting.push({
        type,
        resolve: (event) => {
          clearTimeout(timer);
          resolve(event);
        },
      });
    });
  }

  /** Quits. Idempotent, so that a test may also leave it to `onTestFinished`. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const exited = new Promise((resolve) => {
      if (this.process.exitCode !== null || this.process.signalCode !== null) resolve(undefined);
      else this.process.once('exit', resolve);
    });
    this.command('quit');
    const force = setTimeout(() => this.process.kill('SIGKILL'), 3000);
    await exited;
    clearTimeout(force);
    this.control.destroy();
    this.recording = this.#heard();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #heard(): Buffer {
    const file = readdirSync(this.folder).find((name) => name.endsWith('-dec.wav'));
    return file ? readFileSync(path.join(this.folder, file)) : Buffer.alloc(0);
  }

  #take(event: BaresipEvent): void {
    const index = this.#waiting.findIndex((waiter) => waiter.type === event.type);
    if (index >= 0) this.#waiting.splice(index, 1)[0]?.resolve(event);
    else this.events.push(event);
  }
}

/** A WAV file of 16-bit mono silence at 8 kHz. */
function silence(seconds: number): Buffer {
  const bytes = seconds * 16_000;
  const wav = Buffer.alloc(44 + bytes);
  wav.write('RIFF', 0);
  wav.writeUInt32LE(36 + bytes, 4);
  wav.write('WAVEfmt ', 8);
  wav.writeUInt32LE(16, 16);
  wav.writeUInt16LE(1, 20);
  wav.writeUInt16LE(1, 22);
  wav.writeUInt32LE(8000, 24);
  wav.writeUInt32LE(16_000, 28);
  wav.writeUInt16LE(2, 32);
  wav.writeUInt16LE(16, 34);
  wav.write('data', 36);
  wav.writeUInt32LE(bytes, 40);
  return wav;
}

async function connected(port: number, child: ChildProcess): Promise<Socket> {
  for (let attempt = 0; attempt < 100; attempt++) {
    if (child.exitCode !== null) throw new Error(`baresip ended with code ${child.exitCode}`);
    const socket = connect(port, '127.0.0.1');
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    if (isOpen) return socket;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('baresip did not open its control port');
}
