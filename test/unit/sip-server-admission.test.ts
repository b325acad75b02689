import { describe, expect, it } from 'vitest';
import { Admission, type AdmissionLimits } from '../../sip/server/admission.js';

function open(limits: Partial<AdmissionLimits> = {}) {
  let nowMs = 0;
  const admission = new Admission(() => nowMs, limits);
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
    admission.reported(201);
    expect(admission.admits()).not.toBeNull();
    admission.reported(0);
    expect(admission.admits()).toBeNull();
    pass(301);
    expect(admission.admits()).not.toBeNull();
    admission.reported(0);
    expect(admission.admits()).toBeNull();
  });
});
