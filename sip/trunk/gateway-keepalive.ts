/** Watches our carriers' gateways between calls with OPTIONS, and keeps our registrations with them. */

import type { Stack } from '../drachtio/types.js';
import type { GatewayState, MonitoredGateway } from '../leg.js';
import type { SipLog } from '../log.js';
import { SipNames } from '../outbound/dns-naptr-srv.js';
import { nextHops } from '../outbound/next-hop.js';
import { hopToPhone } from '../outbound/request-targets.js';
import type { Binding } from '../registrar/bindings.js';
import { Probe, sendOptions } from './options-probe.js';
import { Registration } from './registration.js';

export interface GatewayKeepaliveOptions {
  /** Time between two OPTIONS to a gateway; 0: none are sent. */
  probeEveryMs: number;
  /** The control connection; null while it is down. */
  stack(): Stack | null;
  log: SipLog;
  /** The contacts of the registered user that a gateway's URI names; null when it names a host. */
  registered(uri: string): Promise<readonly Binding[] | null>;
  /** Default: the system's name server. */
  names?: SipNames;
}

export class GatewayKeepalive {
  onChange: (uri: string, state: GatewayState) => void = () => undefined;
  readonly #probes = new Map<string, Probe>();
  readonly #registrations = new Map<string, Registration>();

  readonly #names: SipNames;

  constructor(private readonly options: GatewayKeepaliveOptions) {
    this.#names = options.names ?? new SipNames();
  }

  /** Replaces the list of gateways; unchanged ones keep their state. */
  replace(gateways: readonly MonitoredGateway[]): void {
    const { probeEveryMs, stack, log } = this.options;
    const probed = new Map(probeEveryMs > 0 ? gateways.map((gateway) => [gateway.uri, gateway.trust]) : []);
    for (const [uri, probe] of this.#probes) {
      if (probed.has(uri)) continue;
      probe.close();
      this.#probes.delete(uri);
    }
    for (const [uri, trust] of probed) {
      if (this.#probes.has(uri)) continue;
      const onChange = (state: GatewayState, detail?: string) => {
        if (state === 'down') log.warn({ gateway: uri, err: detail }, 'gateway does not answer');
        else log.info({ gateway: uri }, 'gateway answers');
        this.onChange(uri, state);
      };
      this.#probes.set(
        uri,
        new Probe({ uri, everyMs: probeEveryMs, stack, where: this.#whereIs(uri, trust), onChange }),
      );
    }
    this.#replaceRegistrations(gateways);
  }

  stateOf(uri: string): GatewayState {
    return this.#probes.get(uri)?.state ?? 'unknown';
  }

  /** Sends one OPTIONS now. Resolves to null when the gateway is up, else to the reason; `trust` as in `MonitoredGateway`. */
  async probe(uri: string, trust?: string): Promise<string | null> {
    const stack = this.options.stack();
    if (!stack) return 'The SIP server is not connected.';
    return sendOptions(stack, uri, this.#whereIs(uri, trust));
  }

  /** How many of our registrations are in place, and how many are wanted. */
  get registrations(): { standing: number; wanted: number } {
    const all = [...this.#registrations.values()];
    return { standing: all.filter((registration) => registration.state.registered).length, wanted: all.length };
  }

  /** The SIP server is back: registers again, since registrars may have dropped us. */
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

  #whereIs(uri: string, trust: string | undefined) {
    return async (callId: string) => {
      const registered = await this.options.registered(uri);
      if (!registered) return { uri, hops: await this.#hopsTo(uri, trust)() };
      const [binding] = registered;
      if (!binding) return { uri, hops: [] };
      const { host, nextHop } = hopToPhone(binding, callId);
      return { uri: binding.contact, hops: [{ host, uri: nextHop }] };
    };
  }

  #hopsTo(uri: string, trust: string | undefined) {
    return () => nextHops(uri, this.#names, trust);
  }

  #replaceRegistrations(gateways: readonly MonitoredGateway[]): void {
    const { stack, log } = this.options;
    const wanted = new Map(
      gateways.flatMap(({ uri, register, trust }) =>
        register ? [[JSON.stringify([uri, register]), { uri, register, trust }]] : [],
      ),
    ) as Map<string, { uri: string; register: NonNullable<MonitoredGateway['register']>; trust?: string }>;
    for (const [key, registration] of this.#registrations) {
      if (wanted.has(key)) continue;
      this.#registrations.delete(key);
      void registration.close();
    }
    for (const [key, { uri, register, trust }] of wanted) {
      if (this.#registrations.has(key)) continue;
      const about = { registrar: uri, username: register.username };
      const registration = new Registration({
        ...{ ...register, registrar: uri, stack, hops: this.#hopsTo(uri, trust) },
        onChange: (state) =>
          state.registered
            ? log.info(about, 'registered with a carrier')
            : log.warn({ ...about, err: state.detail }, 'not registered with a carrier'),
      });
      this.#registrations.set(key, registration);
    }
  }
}
