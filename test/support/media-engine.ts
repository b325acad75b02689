/** A media engine for tests, and what its sessions need. */
import { randomInt } from 'node:crypto';
import type { AgentTarget } from '../../media/agents/agent.js';
import { type MediaEngineOptions, startMediaEngine } from '../../media/choose.js';
import type { MediaEngine, MediaEvent, MediaSession, OpenSession } from '../../media/engine.js';
import { portPairs } from './port-ranges.js';

/** Quarantine is off, so that a test sees at once what is left. */
export function startTestEngine(options: Partial<MediaEngineOptions> = {}): Promise<MediaEngine> {
  return startMediaEngine({ threads: 1, rtpPorts: portPairs(100), quarantineMs: 0, ...options });
}

export function sessionOptions(change: Partial<OpenSession> = {}): OpenSession {
  return {
    group: `call-${randomInt(1e9)}`,
    offer: null,
    policy: { codecs: ['PCMU', 'PCMA'], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 },
    localAddress: '127.0.0.1',
    role: 'caller',
    ...change,
  };
}

export function agentTarget(url: string, change: Partial<AgentTarget> = {}): AgentTarget {
  return {
    protocol: 'raw',
    url,
    config: { encoding: 'ulaw' },
    call: { callId: 'c1', organizationId: 'o1', from: '+15550001', to: '+15550002', direction: 'inbound', custom: {} },
    connectTimeoutMs: 3000,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: true,
    ...change,
  };
}

export function collectEvents(session: MediaSession): MediaEvent[] {
  const events: MediaEvent[] = [];
  session.onEvent((event) => events.push(event));
  return events;
}

/** Waits for a condition that no event announces. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  limitMs = 5000,
): Promise<void> {
  const endMs = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`Waited ${limitMs} ms for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
