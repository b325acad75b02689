/** SIP sides of several nodes in one process, which share the phones that register with them through a Redis. */

import type { SipGatewayOptions } from '../../sip/gateway.js';
import { RedisConnection } from '../../src/redis/connection.js';
import { LivingNodes } from '../../src/redis/living-nodes.js';
import { SharedRegistrations } from '../../src/redis/shared-registrations.js';
import { openTestGateway, phoneTrunk, type TestGateway } from './sip-gateway.js';

export interface PhoneNode extends TestGateway {
  nodes: LivingNodes;
  redis: RedisConnection;
}

/** Loopback is not their own network: each phone seems to be behind NAT. */
export const outside = { localNets: ['10.0.0.0/8'] };
const times = { livesForMs: 1_000, announceEveryMs: 200 };

export async function openPhoneNode(url: string, change: Partial<SipGatewayOptions> = {}): Promise<PhoneNode> {
  const redis = await RedisConnection.connect(url);
  const nodes = new LivingNodes(redis, times);
  const gateway = await openTestGateway([phoneTrunk('desk1'), phoneTrunk('desk2')], {
    digestAlgorithms: ['MD5'], // for baresip 1.0
    registrar: { minExpiresSec: 1 },
    directory: new SharedRegistrations(redis, nodes),
    ...change,
  });
  await nodes.start(gateway.gateway.addresses, (hosts) => gateway.gateway.trustNodes(hosts));
  const { close } = gateway;
  return Object.assign(gateway, {
    nodes,
    redis,
    async close() {
      await nodes.stop();
      await close();
      redis.close();
    },
  });
}
