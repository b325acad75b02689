/** What is done for our carriers between calls: asking whether their gateways live, and staying registered. */
import type { GatewayState, KeptGateway } from './leg.js';
import type { SipLog } from './log.js';
import { Probe } from './probe.js';
import { Registration } from './registration.js';
import type { Stack } from './stack.js';

export interface UpkeepOptions {
  /** Between two questions to a gateway; 0: none are asked. */
  probeEveryMs: number;
  /** The control connection while it is up. */
  stack(): Stack | null;
  log: SipLog;
}

export class Upkeep {
  onChange: (uri: string, state: GatewayState) => void = () => undefined;
  readonly #probes = new Map<string, Probe>();
  readonly #registrations = new Map<string, Registration>();

  constructor(private readonly options: UpkeepOptions) {}

  /** Takes the place of the earlier list; what stays the same is not disturbed. */
  replace(gateways: readonly KeptGateway[]): void {
    const { probeEveryMs, stack, log } = this.options;
    const uris = new Set(probeEveryMs > 0 ? gateways.map((gateway) => gateway.uri) : []);
    for (const [uri, probe] of this.#probes) {
      if (uris.has(uri)) continue;
      probe.close();
      this.#probes.delete(uri);
    }
    for (const uri of uris) {
      if (this.#probes.has(uri)) continue;
      const onChange = (state: GatewayState) => {
        if (state === 'down') log.warn({ gateway: uri }, 'gateway does not answer');
        else log.info({ gateway: uri }, 'gateway answers');
        this.onChange(uri, state);
      };
      this.#probes.set(uri, new Probe({ uri, everyMs: probeEveryMs, stack, onChange }));
    }
    this.#replaceRegistrations(gateways);
  }

  stateOf(uri: string): GatewayState {
    return this.#probes.get(uri)?.state ?? 'unknown';
  }

  /** How many of our registrations stand, of how many. */
  get registrations(): { standing: number; wanted: number } {
    const all = [...this.#registrations.values()];
    return { standing: all.filter((registration) => registration.state.registered).length, wanted: all.length };
  }

  /** The SIP server is back: registrars may have lost sight of us. */
  restored(): void {
    for (const registration of this.#registrations.values()) registration.renew();
  }

  async close(): Promise<void> {
    for (const probe of this.#probes.values()) probe.close();
    this.#probes.clear();
    const registrations = [...this.#registrations.values()];
    this.#registrations.clear();
    await Promise.all(registrations.map((registration) => registration.close()));
  }

  #replaceRegistrations(gateways: readonly KeptGateway[]): void {
    const { stack, log } = this.options;
    const wanted = new Map(
      gateways.flatMap(({ uri, register }) => (register ? [[JSON.stringify([uri, register]), { uri, register }]] : [])),
    ) as Map<string, { uri: string; register: NonNullable<KeptGateway['register']> }>;
    for (const [key, registration] of this.#registrations) {
      if (wanted.has(key)) continue;
      this.#registrations.delete(key);
      void registration.close();
    }
    for (const [key, { uri, register }] of wanted) {
      if (this.#registrations.has(key)) continue;
      const about = { registrar: uri, username: register.username };
      const registration = new Registration({
        ...{ ...register, registrar: uri, stack },
        onChange: (state) =>
          state.registered
            ? log.info(about, 'registered with a carrier')
            : log.warn({ ...about, err: state.detail }, 'not registered with a carrier'),
      });
      this.#registrations.set(key, registration);
    }
  }
}
