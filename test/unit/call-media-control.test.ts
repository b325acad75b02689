/** The transition table of `MediaControl`, every cell, and what each operation does to the applications. */
import { describe, expect, it } from 'vitest';
import type { AgentLink, MediaSession } from '../../media/engine.js';
import type { CallCommand } from '../../src/call/core/command.js';
import type { Application } from '../../src/call/party/application.js';
import { MediaControl, TransitionRefused } from '../../src/call/party/media-control.js';

const kinds = ['agent', 'script', 'bridge', 'conference', 'announcement'] as const;
type Kind = (typeof kinds)[number];
const operations = ['connect', 'lend', 'replaceAll'] as const;

/** Rows: what runs; columns: what shall follow, in the order of `kinds`; cells: the operations that do it. */
const table: Record<string, readonly string[]> = {
  none: ['connect', 'connect', 'connect', 'connect', ''],
  agent: ['', '', 'replaceAll', '', 'connect'],
  script: ['lend', '', 'lend replaceAll', 'lend', 'connect'],
  'dial bridge': ['', '', 'replaceAll', '', ''],
  'SIP agent': ['', '', 'replaceAll', '', 'connect'],
  'transfer bridge': ['', '', '', '', ''],
  conference: ['', '', 'replaceAll', '', ''],
  announcement: ['', '', '', '', ''],
};

/** Everything that happens to applications and media, in order. */
function party() {
  const log: string[] = [];
  const session = {
    attach: (owner: unknown) => log.push(`media: ${owner === null ? 'silence' : 'agent'}`),
    bridge: () => {
      log.push('media: bridge');
      return {};
    },
  } as unknown as MediaSession;
  const control = new MediaControl(() => session);
  const application = (kind: Kind, more: Partial<Application> = {}): Application => ({
    kind,
    attach: () => log.push(`${kind}: attach`),
    detach: async (why) => void log.push(`${kind}: ${why}`),
    onKey: ({ digit }) => log.push(`${kind}: key ${digit}`),
    onHold: (hold) => log.push(`${kind}: ${hold === null ? 'resumed' : 'held'}`),
    ...more,
  });
  return { control, log, application };
}

const never = (): AbortSignal => new AbortController().signal;

/** An answered party on which `state` runs. */
async function inState(state: string) {
  const made = party();
  const { control, application } = made;
  control.open();
  if (state === 'none') return made;
  if (state === 'agent' || state === 'script') await control.connect(application(state));
  else if (state === 'SIP agent') await control.connect(application('bridge'));
  else if (state === 'dial bridge' || state === 'conference') {
    await control.connect(application('script'));
    void control.lend(application(state === 'conference' ? state : 'bridge'), never());
  } else {
    await control.connect(application('agent'));
    if (state === 'announcement') await control.connect(application('announcement'));
    else await control.replaceAll(application('bridge'));
  }
  return made;
}

describe('the transition table', () => {
  for (const [state, cells] of Object.entries(table))
    for (const [column, kind] of kinds.entries())
      for (const operation of operations) {
        const isAllowed = cells[column]?.split(' ').includes(operation) ?? false;
        it(`${state}, ${operation} ${kind}: ${isAllowed ? 'follows' : 'refused'}`, async () => {
          const { control, log, application } = await inState(state);
          expect(control.state).toBe(state);
          const before = control.current;
          const happened = [...log];
          const next = application(kind);
          const done = operation === 'lend' ? control.lend(next, never()) : control[operation](next);
          if (isAllowed) {
            expect(control.current).toBe(next);
            if (operation !== 'lend') await done;
            expect(log.slice(happened.length)).toContain(`${kind}: attach`);
          } else {
            await expect(done).rejects.toThrow(TransitionRefused);
            expect(control.current).toBe(before);
            expect(log).toEqual(happened);
          }
        });
      }
});

describe('connect', () => {
  it('before the answer: the application gets the media when the party answers, once', async () => {
    const { control, log, application } = party();
    await control.connect(application('agent'));
    control.key({ digit: '1', method: 'rfc4733', passedOn: false });
    expect([log, control.isOpen]).toEqual([[], false]);
    control.open();
    control.open();
    expect(log).toEqual(['agent: attach']);
  });

  it('of an announcement detaches what was there', async () => {
    const { control, log, application } = await inState('agent');
    await control.connect(application('announcement'));
    expect(log).toEqual(['agent: attach', 'agent: replaced', 'announcement: attach']);
  });
});

describe('lend', () => {
  for (const kind of ['agent', 'bridge', 'conference'] as const)
    it(`the script gets the party back from a ${kind}`, async () => {
      const { control, log, application } = await inState('script');
      const until = new AbortController();
      const lent = control.lend(application(kind), until.signal);
      control.key({ digit: '5', method: 'info', passedOn: false });
      control.hold({ sends: true });
      until.abort();
      await lent;
      control.key({ digit: '6', method: 'info', passedOn: false });
      expect(log.slice(1)).toEqual([
        `${kind}: attach`,
        `${kind}: key 5`,
        `${kind}: held`,
        `${kind}: finished`,
        'script: attach',
        'script: key 6',
      ]);
      expect(control.state).toBe('script');
    });

  it('that is over before it begins gives nothing away', async () => {
    const { control, log, application } = await inState('script');
    await control.lend(application('agent'), AbortSignal.abort());
    expect(log.slice(1)).toEqual(['agent: finished', 'script: attach']);
  });

  it('the script gets nothing back from a call that has ended', async () => {
    const { control, log, application } = await inState('script');
    const until = new AbortController();
    const lent = control.lend(application('agent'), until.signal);
    await control.release('call_ended');
    until.abort();
    await lent;
    expect(log.slice(1)).toEqual(['agent: attach', 'agent: call_ended', 'script: call_ended', 'agent: call_ended']);
  });
});

describe('replaceAll', () => {
  it('detaches the top first, and bridges after the last one has left and the media are silent', async () => {
    const { control, log, application } = party();
    let left!: () => void;
    const slow = new Promise<void>((resolve) => {
      left = resolve;
    });
    control.open();
    await control.connect(
      application('script', {
        detach: async (why) => {
          log.push(`script: ${why}`);
          await slow;
          log.push('script: left');
        },
      }),
    );
    const until = new AbortController();
    const lent = control.lend(application('agent'), until.signal);
    const replaced = control.replaceAll(application('bridge'));
    until.abort(); // the script interrupts its action
    await lent;
    expect(control.state).toBe('transfer bridge');
    left();
    await replaced;
    expect(log.slice(2)).toEqual([
      'agent: transferred',
      'script: transferred',
      'agent: transferred',
      'script: left',
      'media: silence',
      'bridge: attach',
    ]);
  });

  it('takes keys at once, and happens once', async () => {
    const { control, log, application } = await inState('agent');
    const first = control.replaceAll(application('bridge'));
    control.key({ digit: '9', method: 'info', passedOn: false });
    await expect(control.replaceAll(application('bridge'))).rejects.toThrow(TransitionRefused);
    await first;
    expect(log.filter((line) => line.startsWith('bridge'))).toEqual(['bridge: key 9', 'bridge: attach']);
    expect(control.isTransferred).toBe(true);
  });

  it('bridges nothing when the call ended meanwhile', async () => {
    const { control, log, application } = await inState('agent');
    const replaced = control.replaceAll(application('bridge'));
    const released = control.release('call_ended');
    await expect(replaced).rejects.toThrow('The call ended');
    await released;
    expect(log).not.toContain('bridge: attach');
  });
});

describe('release', () => {
  it('waits for all that leave, and nothing follows after the end', async () => {
    const { control, log, application } = party();
    control.open();
    await control.connect(
      application('agent', {
        detach: async (why) => {
          await Promise.resolve();
          log.push(`agent: left, ${why}`);
        },
      }),
    );
    await control.release('call_ended');
    expect(log.at(-1)).toBe('agent: left, call_ended');
    expect([control.current, control.isOpen]).toEqual([null, false]);
    for (const kind of kinds) await expect(control.connect(application(kind))).rejects.toThrow(TransitionRefused);
  });

  it('of an endpoint that failed before the answer makes room for the next one', async () => {
    const { control, log, application } = party();
    await control.connect(application('bridge'));
    await control.release('failed');
    await control.connect(application('agent'));
    control.open();
    expect(log).toEqual(['bridge: failed', 'agent: attach']);
  });
});

describe('the media', () => {
  it('belong to the application on top', async () => {
    const { control, log, application } = party();
    control.open();
    const script = application('script');
    await control.connect(script);
    const agent = application('agent');
    void control.lend(agent, never());
    log.length = 0;
    control.attach(script, null);
    expect(control.bridge(script, {} as MediaSession, { relay: 'packets', dtmf: 'pass' })).toBeNull();
    control.attach(agent, {} as AgentLink);
    expect(log).toEqual(['media: agent']);
  });
});

describe('a command', () => {
  it('goes to the top first, and to the next one when that has no answer', async () => {
    const { control, application } = party();
    control.open();
    const redirect: CallCommand = { kind: 'redirect', to: { actions: [] } };
    expect(control.command(redirect)).toBeNull();
    await control.connect(
      application('script', { onCommand: ({ kind }) => (kind === 'redirect' ? Promise.resolve({ ok: true }) : null) }),
    );
    void control.lend(application('agent'), never());
    expect(await control.command(redirect)).toEqual({ ok: true });
    expect(control.command({ kind: 'hangup' })).toBeNull();
  });
});
