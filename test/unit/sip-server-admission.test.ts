import { afterEach, describe, expect, it, vi } from 'vitest';
import { type AdmissionLimits, InviteAdmission } from '../../sip/server/overload/admission.js';
import { RunningClock } from '../../sip/server/overload/running-clock.js';

function open(limits: Partial<AdmissionLimits> = {}) {
  let nowMs = 0;
  const admission = new InviteAdmission(() => nowMs, limits);
  return {
    admission,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

describe('a new call is refused', () => {
  it('while the application has not said a word to an earlier one for too long', () => {
    const { admission, pass } = open({ waitMs: 150 });
    admission.delivered('a');
    admission.delivered('b');
    pass(150);
    expect(admission.admits()).toBeNull();
    pass(1);
    expect(admission.admits()).toBeGreaterThanOrEqual(1);
    admission.heard('a');
    expect(admission.admits()).not.toBeNull();
    admission.settled('b');
    expect(admission.admits()).toBeNull();
    expect(admission.refused).toBe(2);
  });

  it('when so many wait that it would have to wait too long, by what was served lately; and not once they are served', () => {
    const { admission, pass } = open({ waitMs: 10_000, foreseenWaitMs: 300 });
    for (let i = 0; i < 60; i++) admission.delivered(`a${i}`);
    expect(admission.admits(), 'nothing is known of the speed yet').toBeNull();
    admission.estimate(50); // from here on there is no pause
    for (let served = 0; served < 20; served += 5) {
      expect(admission.admits(), 'it is not known for long enough').toBeNull();
      pass(50);
      for (let i = served; i < served + 5; i++) admission.heard(`a${i}`);
      admission.estimate(50);
    }
    expect(admission.admits(), '100 a second, and 40 wait').not.toBeNull();
    for (let i = 20; i < 35; i++) admission.heard(`a${i}`);
    expect(admission.admits(), '25 wait: 250 ms').toBeNull();
    for (let i = 35; i < 60; i++) admission.heard(`a${i}`);
    for (let i = 0; i < 40; i++) admission.delivered(`b${i}`);
    expect(admission.admits(), 'it had a pause: its speed is not known').toBeNull();
  });

  it('not because the application was held up for a moment: that nothing was served says little of its speed', () => {
    const { admission } = open({ waitMs: 10_000, foreseenWaitMs: 1000 });
    for (let i = 0; i < 200; i++) admission.delivered(`a${i}`);
    for (let heldUpMs = 0; heldUpMs < 200; heldUpMs += 50) {
      admission.estimate(50);
      expect(admission.admits(), `nothing in ${heldUpMs} ms`).toBeNull();
    }
    admission.estimate(50);
    expect(admission.admits(), 'nothing in 200 ms').not.toBeNull();
    for (let i = 0; i < 160; i++) admission.heard(`a${i}`);
    admission.estimate(50);
    expect(admission.admits(), '160 in 168 ms').toBeNull();
  });

  it('not because of a response that waits for the disk', () => {
    const { admission, pass } = open({ waitMs: 1000, foreseenWaitMs: 300 });
    for (let i = 0; i < 100; i++) {
      admission.delivered(`a${i}`);
      admission.takenUp(`a${i}`);
    }
    for (let i = 0; i < 40; i++) {
      pass(50);
      admission.estimate(50);
    }
    expect(admission.admits()).toBeNull();
  });

  describe('while the main thread leaves lying what it hears', () => {
    const asking = () => {
      vi.useFakeTimers();
      const admission = new InviteAdmission(() => performance.now(), { mainWaitMs: 100, foreseenWaitMs: 10_000 });
      let asked = 0;
      admission.watch(() => {
        asked++;
      });
      const answeredAfter = (ms: number) => {
        const before = asked;
        while (asked === before) vi.advanceTimersByTime(1);
        vi.advanceTimersByTime(ms);
        admission.mainAnswered();
      };
      return { admission, answeredAfter };
    };
    afterEach(() => {
      vi.useRealTimers();
    });

    it('and many INVITEs have no response, also of those that it had taken up', () => {
      const { admission, answeredAfter } = asking();
      for (let i = 0; i < 16; i++) {
        admission.delivered(`a${i}`);
        admission.takenUp(`a${i}`);
      }
      answeredAfter(5);
      expect(admission.admits()).toBeNull();
      answeredAfter(150);
      expect(admission.admits(), 'it was held up once').toBeNull();
      answeredAfter(150);
      expect(admission.admits()).not.toBeNull();
      admission.heard('a0');
      expect(admission.admits(), 'a handful').toBeNull();
      admission.delivered('b');
      answeredAfter(5);
      expect(admission.admits(), 'it hears again').toBeNull();
      admission.close();
    });

    it('and the answer to the last question has been due for long', () => {
      const { admission, answeredAfter } = asking();
      for (let i = 0; i < 16; i++) admission.delivered(`a${i}`);
      answeredAfter(0);
      vi.advanceTimersByTime(50);
      vi.advanceTimersByTime(200);
      expect(admission.admits()).toBeNull();
      vi.advanceTimersByTime(1);
      expect(admission.admits()).not.toBeNull();
      for (let i = 0; i < 16; i++) admission.settled(`a${i}`);
      expect(admission.admits()).toBeNull();
      admission.close();
    });
  });

  it('never for a slow handful', () => {
    const { admission } = open({ waitMs: 10_000, foreseenWaitMs: 300 });
    for (let i = 0; i < 15; i++) admission.delivered(`a${i}`);
    for (let i = 0; i < 10; i++) admission.estimate(50);
    expect(admission.admits()).toBeNull();
  });

  it('when as many wait for their final answer as may', () => {
    const { admission } = open({ openInvites: 2 });
    for (const id of ['a', 'b']) {
      expect(admission.admits()).toBeNull();
      admission.delivered(id);
      admission.heard(id);
    }
    expect(admission.admits()).not.toBeNull();
    admission.settled('a');
    expect(admission.admits()).toBeNull();
  });

  it('above the rate, and not below', () => {
    const { admission, pass } = open({ invitesPerSec: 10 });
    const admitted = () =>
      Array.from({ length: 30 }, () => admission.admits()).filter((after) => after === null).length;
    expect(admitted()).toBe(10);
    pass(300);
    expect(admitted()).toBe(3);
  });

  it('while a media thread runs late, or the main thread is silent', () => {
    const { admission, pass } = open({ lagMs: 200 });
    for (let report = 0; report < 15; report++) {
      expect(admission.admits(), 'it has not lasted').toBeNull();
      admission.reported(201);
    }
    expect(admission.admits()).not.toBeNull();
    admission.reported(0);
    expect(admission.admits()).toBeNull();
    pass(301);
    expect(admission.admits()).not.toBeNull();
    admission.reported(0);
    expect(admission.admits()).toBeNull();
  });
});

describe('the clock of a thread that runs', () => {
  const opened = () => {
    const time = { atMs: 0, busyMs: 0 };
    const clock = new RunningClock({
      nowMs: () => time.atMs,
      takeBusyMs: () => {
        const { busyMs } = time;
        time.busyMs = 0;
        return busyMs;
      },
    });
    return {
      clock,
      admission: new InviteAdmission(clock.now, {}, clock.readsOld),
      pass: (ms: number, busyMs = 0) => {
        time.atMs += ms;
        time.busyMs += busyMs;
      },
    };
  };

  it('leaves out the time in which its process stood still: a call that comes then is let in', () => {
    const { clock, admission, pass } = opened();
    admission.reported(0);
    admission.delivered('a');
    pass(3_000);
    expect(admission.admits(), 'before the first tick').toBeNull();
    clock.tick();
    for (let i = 0; i < 10; i++) admission.reported(3_000); // media threads, once a second
    expect(admission.admits()).toBeNull();
  });

  it('after a long one refuses what waited in the sockets: a proxy has given it to another server', () => {
    const { clock, admission, pass } = opened();
    pass(3_600);
    expect(admission.admits(), 'before the first tick').not.toBeNull();
    clock.tick();
    expect(admission.admits(), 'while the sockets are read').not.toBeNull();
    for (let i = 0; i < 20; i++) {
      pass(50);
      clock.tick();
    }
    expect(admission.admits()).toBeNull();
  });

  it('goes on while the thread is busy, and while it waits for a main thread that is', () => {
    const { clock, admission, pass } = opened();
    admission.delivered('a');
    pass(1_200, 1_150);
    clock.tick();
    expect(admission.admits(), 'by its own work').not.toBeNull();
    admission.heard('a');
    expect(admission.admits()).toBeNull();
    admission.reported(0);
    for (let i = 0; i < 24; i++) {
      pass(50);
      clock.tick();
    }
    expect(admission.admits(), 'the main thread says nothing for 1.2 s').not.toBeNull();
  });
});

describe('strangers', () => {
  it('wait in a queue of their own, and no longer one than it may be', () => {
    const { admission } = open({ strangersWaiting: 2 });
    for (const id of ['a', 'b']) {
      expect(admission.hasRoomForStranger).toBe(true);
      admission.deliveredOfStranger(id, true);
    }
    expect(admission.hasRoomForStranger).toBe(false);
    admission.settled('a');
    expect(admission.hasRoomForStranger).toBe(true);
  });

  it('never make a known call wait, or take of its rate, however many they are', () => {
    const { admission, pass } = open({ waitMs: 100, foreseenWaitMs: 1, invitesPerSec: 3 });
    for (let i = 0; i < 1000; i++) {
      admission.deliveredOfStranger(`s${i}`, i % 2 === 0);
      expect(admission.admits(false)).toBeNull();
    }
    admission.estimate(50);
    pass(5000);
    for (let i = 0; i < 3; i++) expect(admission.admits()).toBeNull();
    expect(admission.admits()).not.toBeNull();
  });

  it('are calls like any other once theirs ring', () => {
    const { admission } = open({ openInvites: 1 });
    admission.deliveredOfStranger('register', false);
    admission.heard('register');
    expect(admission.admits()).toBeNull();
    admission.deliveredOfStranger('invite', true);
    expect(admission.admits()).toBeNull();
    admission.heard('invite');
    expect(admission.admits()).not.toBeNull();
    admission.settled('invite');
    expect(admission.admits()).toBeNull();
  });

  it('are refused with everybody else while the application says nothing', () => {
    const { admission, pass } = open({ waitMs: 100 });
    admission.delivered('a');
    pass(101);
    expect(admission.admits(false)).not.toBeNull();
  });
});
