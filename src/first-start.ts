/** What the database contains after the first start, and whether programs on this host are still trusted on later starts. */
import ipaddr from 'ipaddr.js';
import type { Settings } from '../config/settings.js';
import { echoAgentHost } from './echo-agent.js';
import type { Logger } from './log.js';
import type { Store } from './store/store.js';
import { bootstrap, type FirstStart } from './store/tenants/bootstrap.js';

/**
 * Fills an empty database; returns null when it was not empty. The trunk "Loopback" trusts every program on this host, so it exists only while SIP
 * listens on a loopback address: on any other address a program here could forward calls of strangers.
 */
export async function firstStart(
  store: Store,
  { bootstrapKey, sipHost }: Pick<Settings, 'bootstrapKey' | 'sipHost'>,
  log: Logger,
): Promise<FirstStart | null> {
  const loopbackTrunk = isLoopback(sipHost);
  const first = await bootstrap(store, {
    ...(bootstrapKey === null ? {} : { key: bootstrapKey }),
    echoAgent: { target: `ws://${echoAgentHost}/twilio`, providerConfig: { protocol: 'twilio' } },
    loopbackTrunk,
  });
  if (!loopbackTrunk && (await store.trunks.retireLoopback())) {
    log.warn(
      { sip_host: sipHost },
      'the trunk "Loopback" of the first start was set inactive: sip_host is no loopback address, and a program on this host may forward calls of strangers. Set it active to trust them all the same.',
    );
  }
  return first;
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
