/** Agents whose audio FreeSWITCH carries itself: which ones, what is sent to the module, and what is watched meanwhile. */
import { EventEmitter } from 'node:events';
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import { describe, expect, it } from 'vitest';
import type { AgentTarget } from '../../media/agents/agent.js';
import type { MediaEvent } from '../../media/engine.js';
import { AudioFork, quoted, whyNotForked } from '../../media/freeswitch/audio-fork.js';
import { PhoneWatch } from '../../media/freeswitch/phone-watch.js';

const target: AgentTarget = {
  protocol: 'jambonz',
  url: 'ws://127.0.0.1:9/a|b',
  config: {},
  call: {
    ...{ callId: 'c1', organizationId: 'o1', from: '+12025550001', to: '+12025550002', direction: 'inbound' },
    custom: { note: `it's "a|b"\n\\n é` },
  },
  ...{ connectTimeoutMs: 1000, firstAudioTimeoutMs: 0, allowPrivateAddress: true },
};

describe('which agents FreeSWITCH can carry', () => {
  it.each([
    ['jambonz without credentials', {}, null],
    ['another protocol', { protocol: 'twilio' }, /does not speak the protocol twilio/],
    ['a recorded call', { recorded: true }, /recorded/],
    ['an echo that is removed', { removeEcho: true }, /echo/],
    ['private addresses refused', { allowPrivateAddress: false }, /allow_private_targets/],
    ['credentials', { config: { username: 'u', password: 'p' } }, /credentials/],
  ] as const)('%s', (_, change, reason) => {
    const why = whyNotForked({ ...target, ...change });
    if (reason === null) expect(why).toBe(null);
    else expect(why).toMatch(reason);
  });
});

describe('one word of JSON for FreeSWITCH', () => {
  it('keeps its value, without quotes, bars and short escapes', () => {
    const value = { text: `it's "a|b"\n\t\\n \\' é 😀`, 'a|b': [1, null, true] };
    const word = quoted(JSON.stringify(value));
    expect(word).toMatch(/^'[\x20-\x7e]*'$/);
    expect(word.slice(1, -1)).not.toMatch(/['|]|\\[^u]/);
    expect(JSON.parse(word.slice(1, -1))).toEqual(value);
  });
});

class Phone extends EventEmitter {
  addCustomEventListener(event: string, listener: (body: unknown) => void): void {
    this.on(event, listener);
  }
}

function forked(answer?: (phone: Phone) => void) {
  const phone = new Phone();
  const orders: string[] = [];
  const order = async (_: unknown, words: readonly string[]) => {
    orders.push(words.join('|'));
    if (words[0] === 'start') answer?.(phone);
  };
  const fork = new AudioFork(target, order, async () => phone as unknown as FsmrfEndpoint);
  return { phone, orders, fork };
}

describe('a fork', () => {
  it('is started with the address, the rate and the first message', async () => {
    const { fork, orders } = forked((phone) => phone.emit('mod_audio_fork::connect'));
    await fork.connect(new AbortController().signal);
    const words = orders[0]?.split('|') ?? [];
    expect(words.slice(0, 5)).toEqual(['start', 'ws://127.0.0.1:9/a%7Cb', 'mono', '8000', 'trunkline']);
    expect(words.slice(6)).toEqual(['true', 'true', '8000']);
    const first = JSON.parse(words[5]?.slice(1, -1) ?? '') as Record<string, unknown>;
    expect(first).toMatchObject({ callSid: 'c1', from: '+12025550001', note: target.call.custom.note });
    fork.command({ kind: 'dtmf', digits: '12' });
    fork.command({ kind: 'hold', on: true });
    await fork.close('the call is over');
    expect(orders.slice(1).map((each) => each.slice(0, 20))).toEqual([
      ...[`send_text|trunkline|`, `send_text|trunkline|`, 'pause|trunkline', 'stop|trunkline'],
    ]);
    expect(await fork.ended).toMatchObject({ by: 'local' });
  });

  it('fails when FreeSWITCH cannot reach the agent, and waits no longer', async () => {
    const { fork, orders, phone } = forked((at) => at.emit('mod_audio_fork::connect_failed', { reason: 'refused' }));
    await expect(fork.connect(new AbortController().signal)).rejects.toMatchObject({ reason: 'refused' });
    expect(orders.at(-1)).toBe('stop|trunkline');
    expect(phone.eventNames()).toEqual(['mod_audio_fork::disconnect']);
  });

  it('is given up with the call', async () => {
    const { fork } = forked();
    const over = new AbortController();
    const connecting = fork.connect(over.signal);
    over.abort(new Error('over'));
    await expect(connecting).rejects.toMatchObject({ reason: 'aborted', retryable: false });
  });

  it('ends with the agent', async () => {
    const { fork, phone } = forked((at) => at.emit('mod_audio_fork::connect'));
    await fork.connect(new AbortController().signal);
    phone.emit('mod_audio_fork::disconnect', '');
    expect(await fork.ended).toMatchObject({ by: 'hangup' });
  });

  it('connects at the start of an outbound call, and fails there', async () => {
    const { fork } = forked((at) => at.emit('mod_audio_fork::connect_failed', {}));
    fork.start();
    expect(await fork.ended).toMatchObject({ by: 'failed' });
  });
});

describe('a phone whose RTP ends in FreeSWITCH', () => {
  function watched(firstRtpTimeoutMs = 3000, rtpTimeoutMs = 1000) {
    const clock = { nowMs: 0 };
    const events: MediaEvent[] = [];
    let silent = 0;
    const host = {
      tell: (event: MediaEvent) => void events.push(event),
      silent: () => {
        silent += 1;
      },
    };
    const policy = { codecs: [], firstRtpTimeoutMs, rtpTimeoutMs };
    return { clock, events, silent: () => silent, watch: new PhoneWatch(policy, host, () => clock.nowMs) };
  }

  it('is silent too long: from the start, and after packets', () => {
    const never = watched();
    never.watch.answered();
    never.clock.nowMs = 2999;
    never.watch.heard(0);
    expect(never.silent()).toBe(0);
    never.clock.nowMs = 3000;
    never.watch.heard(0);
    expect(never.silent()).toBe(1);
    const stopped = watched();
    stopped.watch.answered();
    stopped.watch.heard(50);
    stopped.clock.nowMs = 1000;
    stopped.watch.heard(50);
    expect(stopped.silent()).toBe(1);
  });

  it('is told held and resumed, and not silent meanwhile', () => {
    const { watch, events, clock, silent } = watched();
    watch.direction('sendrecv');
    watch.answered();
    watch.direction('sendonly');
    clock.nowMs = 60_000;
    watch.heard(0);
    watch.direction('sendrecv');
    watch.heard(0);
    expect(events).toEqual([{ type: 'held', sends: true }, { type: 'resumed' }]);
    expect(silent()).toBe(0);
    expect(watch.held).toBe(null);
  });

  it('presses keys until our engine hears it itself', () => {
    const { watch, events } = watched();
    const phone = new Phone();
    watch.keys(phone as unknown as FsmrfEndpoint);
    phone.emit('dtmf', { dtmf: '5', duration: '1280' });
    watch.stop();
    phone.emit('dtmf', { dtmf: '6', duration: '1280' });
    expect(events).toEqual([{ type: 'dtmf', digit: '5', durationMs: 160, form: 'event', passedOn: false }]);
  });
});
