import { describe, expect, it } from 'vitest';
import type { MachineVerdict, MediaSession } from '../../media/engine.js';
import { answererLanguages, answererOf } from '../../src/call/answering/answerer-phrases.js';
import { answeringPlan } from '../../src/call/answering/answering-plan.js';
import { detectEarlyOperator } from '../../src/call/answering/machine-detection.js';
import { Call } from '../../src/call/core/call.js';
import { CalledParty } from '../../src/call/party/called.js';
import type { Calls } from '../../src/store/calls/calls.js';

describe('the words of who answers', () => {
  it.each([
    ['Hi, if you record your name and reason for calling, I’ll see if this person is available.', 'screening', 'en'],
    ["Hi, the person you're calling is using a screening service from Google.", 'screening', 'en'],
    ['Please state your name after the tone and we will try to connect you.', 'screening', 'en'],
    ['To be connected, press one to complete your call', 'screening', 'en'],
    ['To complete your call, press one.', 'screening', 'en'],
    ['Hello, please take your name and why you are calling.', 'screening', 'en'], // as it was heard
    ['This call is being screened, please save your name.', 'screening', 'en'],
    ['The subscriber has asked me to screen this call. Who is it?', 'screening', 'en'],
    ['The person you are trying to reach is not available at the tone. Please record your message.', 'machine', 'en'],
    ['The male box is full and cannot accept any messages', 'machine', 'en'],
    ['Sorry, I missed your call. We will get back to you.', 'machine', 'en'],
    ["The subscriber you're calling is not available. Please try again later.", 'operator', 'en'],
    ['The person you are calling cannot accept calls at this time.', 'operator', 'en'],
    ['Bitte nennen Sie Ihren Namen und den Grund Ihres Anrufs.', 'screening', 'de'],
    ['Enregistrez votre nom et la raison de votre appel', 'screening', 'fr'],
    ['Di tu nombre y el motivo de la llamada', 'screening', 'es'],
    ['You have reached the voicemail of Anna. Please leave a message after the beep.', 'machine', 'en'],
    ["Hi, it's Tom, I can't come to the phone.", 'machine', 'en'],
    ['Hinterlassen Sie bitte eine Nachricht nach dem Signalton', 'machine', 'de'],
    ['Laissez-moi un message après le bip', 'machine', 'fr'],
    ['Deje su mensaje después de la señal', 'machine', 'es'],
    ['Lasciate un messaggio dopo il segnale acustico', 'machine', 'it'],
    ['Deixe a sua mensagem após o sinal', 'machine', 'pt'],
    ["We're sorry, the number you have dialed is not in service.", 'operator', 'en'],
    ['The subscriber you are trying to reach is not available at the moment', 'operator', 'en'],
    ['Kein Anschluss unter dieser Nummer', 'operator', 'de'],
    ["Le numéro que vous avez composé n'est pas attribué", 'operator', 'fr'],
    ['El teléfono al que llama está apagado o fuera de cobertura', 'operator', 'es'],
    ['Il cliente da lei chiamato non è al momento raggiungibile', 'operator', 'it'],
    ['Het nummer dat u heeft gekozen is niet in gebruik', 'operator', 'nl'],
  ])('%s', (text, answerer, language) => {
    expect(answererOf(text)).toEqual({ answerer, language });
  });

  it.each([
    'Hello?',
    'Miller bakery, good morning',
    'Yes, who is this?',
    'Hallo, Schmidt am Apparat',
    'Allô oui',
    'Speaking',
    'Hello, what is your name please?',
    'Hi, can I have your name and number?',
    'Hello, this is the front desk, may I ask who is calling?',
    'Hey, sorry, I was about to call you back.',
    "Yeah hi, I can't talk now, try me again later.",
    '',
  ])('of a person are none: %s', (text) => {
    expect(answererOf(text)).toBeNull();
  });

  it('are known in these languages', () => {
    expect(answererLanguages).toEqual(['en', 'es', 'fr', 'de', 'it', 'pt', 'nl']);
  });
});

describe('the plan of a call', () => {
  const talk = { machine: 'talk', screening: 'talk', operator: 'talk', fax: 'talk' };
  it.each([
    [{}, {}, { detection: 'off', waits: false, actions: talk, keys: '1' }],
    [{ machineDetection: 'detect' }, {}, { detection: 'detect', waits: false }],
    [{ onMachine: 'hang_up' }, {}, { detection: 'detect', waits: false, actions: { ...talk, machine: 'hang_up' } }],
    [{ onMachine: 'leave_message' }, {}, { detection: 'detect_message_end', waits: true }],
    [{ machineDetection: 'detect', onMachine: 'leave_message' }, {}, { detection: 'detect_message_end' }],
    [{ onScreening: 'press', pressKeys: '42' }, {}, { detection: 'detect', waits: true, keys: '42' }],
    [{ onScreening: 'press', waitsForMachine: false }, {}, { waits: false }],
    [{ machineDetection: 'off' }, { on_machine: 'press' }, { detection: 'off', waits: false }],
    [
      { onFax: 'talk' },
      {
        machine_detection: 'detect',
        wait_for_detection: true,
        on_fax: 'hang_up',
        on_operator: 'hang_up',
        press_keys: '9',
      },
      { detection: 'detect', waits: true, actions: { ...talk, operator: 'hang_up' }, keys: '9' },
    ],
  ] as const)('%j with the endpoint %j', (wish, config, plan) => {
    expect(answeringPlan(wish, config)).toMatchObject(plan);
  });
});

describe('early media', () => {
  function ringing(verdict: Partial<MachineVerdict>) {
    const events: [string, Record<string, unknown>][] = [];
    const records = { event: (_id: string, type: string, data: Record<string, unknown>) => events.push([type, data]) };
    const begun = { id: 'c', createdAt: new Date(), startedAtMs: performance.now(), funds: null };
    const call = new Call(records as unknown as Calls, begun, 'outbound');
    const party = new (class extends CalledParty {
      constructor() {
        super({ call, role: 'callee', facts: {} as never, mode: 'live' });
        this.useSession({
          onEvent: () => () => {},
          lost: new Promise(() => {}),
          held: null,
          detectMachine: async (options: object, signal: AbortSignal) => {
            expect(options).toEqual({ untilMessageEnd: false, early: true });
            if (verdict.result === undefined)
              await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
            const nothing = { greetingMs: null, messageEnd: null, messageEndMs: null, beepHz: null };
            return { result: 'unknown', reason: 'call_ended', decidedMs: 0, ...nothing, ...verdict };
          },
        } as unknown as MediaSession);
      }
    })();
    return { events, call, party };
  }
  const rules = (onOperator: 'talk' | 'hang_up') => ({
    plan: answeringPlan({ machineDetection: 'detect', onOperator }),
    transcription: null,
    transferTimeoutMs: 1000,
  });

  it('with the tones of an announcement ends the call, or is only in the record', async () => {
    const sit = { result: 'operator', reason: 'sit_tone', decidedMs: 1300 } as const;
    for (const onOperator of ['hang_up', 'talk'] as const) {
      const { events, call, party } = ringing(sit);
      await detectEarlyOperator(party, rules(onOperator), new AbortController().signal);
      expect(events[0]).toEqual([
        'amd.completed',
        {
          ...{ result: 'operator', reason: 'sit_tone', decided_ms: 1300 },
          answered_by: 'operator',
          action: onOperator,
          early: true,
        },
      ]);
      expect(call.ending?.cause ?? null).toBe(onOperator === 'hang_up' ? 'originator_cancel' : null);
    }
  });

  it('is not listened to any more after the answer', async () => {
    const { events, call, party } = ringing({});
    const answered = new AbortController();
    const over = detectEarlyOperator(party, rules('hang_up'), answered.signal);
    answered.abort();
    await over;
    expect([events, call.ending]).toEqual([[], null]);
  });
});
