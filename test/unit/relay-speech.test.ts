import { describe, expect, it } from 'vitest';
import { readRelayMessage } from '../../src/call/script/relay/relay-messages.js';
import { RelaySpeech, type RelayVoice } from '../../src/call/script/relay/relay-speech.js';

/** A voice that speaks when it is told to. */
function scripted() {
  const said: string[] = [];
  let going: { text: string; share: number; end(share?: number): void } | null = null;
  const heard: string[] = [];
  const failures: unknown[] = [];
  const voice: RelayVoice = {
    say: (text, language, signal, reached) =>
      new Promise((resolve, reject) => {
        said.push(language === null ? text : `${language}: ${text}`);
        const one = {
          text,
          share: 0,
          end: (share = 1) => {
            reached(text, share);
            going = null;
            resolve();
          },
        };
        going = one;
        signal.addEventListener('abort', () => {
          reached(text, one.share);
          going = null;
          reject(signal.reason);
        });
      }),
    play: async (url) => {
      said.push(url);
    },
    keys: async (digits) => {
      said.push(digits);
    },
  };
  const interruptions: string[] = [];
  const speaking: boolean[] = [];
  const played: string[] = [];
  const speech = new RelaySpeech(voice, {
    heard: (text) => heard.push(text),
    interrupted: ({ text }) => interruptions.push(text),
    failed: (error) => failures.push(error),
    speaking: (isOn) => speaking.push(isOn),
    played: (piece) => played.push(piece),
  });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return { speech, said, heard, interruptions, speaking, played, failures, settle, now: () => going };
}

const any = { interruptible: 'any', preemptible: false } as const;

describe('the speech of an application that writes tokens', () => {
  it('is spoken sentence by sentence, while the rest is still written', async () => {
    const { speech, said, heard, settle, now } = scripted();
    for (const token of ['Hel', 'lo', ' there. How', ' are 3.', '5 of']) speech.text(token, false, any, null);
    expect(said).toEqual(['Hello there.']);
    speech.text(' you?', true, any, null);
    now()?.end();
    await settle();
    expect(said).toEqual(['Hello there.', 'How are 3.5 of you?']);
    now()?.end();
    await settle();
    expect(heard).toEqual(['Hello there. How are 3.5 of you?']);
    expect(speech.isSpeaking).toBe(false);
  });

  it('is interrupted: the rest is dropped, also what still comes of it, and what was heard is known', async () => {
    const { speech, said, heard, interruptions, settle, now } = scripted();
    speech.text('One two three four. ', false, any, null);
    speech.text('Five six seven. ', false, any, null);
    now()?.end();
    await settle();
    const second = now();
    if (second) second.share = 0.7;
    expect(speech.interrupt('speech')).toBe(true);
    speech.text('Eight nine.', false, any, null);
    await settle();
    expect(heard).toEqual(['One two three four. Five six']);
    expect(interruptions).toEqual(heard);
    expect(speech.interrupt('speech')).toBe(false);
    speech.answersNow();
    speech.text('Yes?', true, any, 'de');
    expect(said).toEqual(['One two three four.', 'Five six seven.', 'de: Yes?']);
  });

  it.each([
    ['none', 'speech', false],
    ['none', 'dtmf', false],
    ['dtmf', 'speech', false],
    ['dtmf', 'dtmf', true],
    ['speech', 'dtmf', false],
    ['any', 'speech', true],
  ] as const)('interruptible %s: %s interrupts: %s', (interruptible, by, does) => {
    const { speech } = scripted();
    speech.text('A text.', true, { interruptible, preemptible: false }, null);
    expect(speech.interrupt(by)).toBe(does);
  });

  it('that may be preempted makes room for the next text; other speech waits for its turn', async () => {
    const { speech, said, settle, now } = scripted();
    speech.text('Let me see.', true, { ...any, preemptible: true }, null);
    speech.text('Here it is.', true, any, null);
    await settle();
    expect(said).toEqual(['Let me see.', 'Here it is.']);
    speech.play('https://a.example/b.mp3', 1, any);
    speech.keys('12');
    await settle();
    expect(said).toHaveLength(2);
    const drained = speech.drained();
    now()?.end();
    await drained;
    expect(said.slice(2)).toEqual(['https://a.example/b.mp3', '12']);
  });

  it('refuses more text than anybody would hear', () => {
    const { speech } = scripted();
    expect(() => {
      for (let i = 0; i < 20; i++) speech.text('x'.repeat(9000), false, any, null);
    }).toThrow('characters wait to be spoken');
    speech.close();
  });
});

describe('messages of the application', () => {
  it.each<[object, object]>([
    [
      { type: 'text', token: 'Hi', last: true },
      { token: 'Hi', last: true, interruptible: null, language: null },
    ],
    [
      { type: 'text', token: 'Hi', interruptible: false, preemptible: true, lang: 'sv-SE' },
      { last: false, interruptible: 'none', preemptible: true, language: 'sv-SE' },
    ],
    [
      { type: 'play', source: 'https://a.example/b.mp3', loop: 2 },
      { url: 'https://a.example/b.mp3', loop: 2 },
    ],
    [
      { type: 'sendDigits', digits: '9W1' },
      { type: 'keys', digits: '9ww1' },
    ],
    [
      { type: 'language', ttsLanguage: 'sv-SE' },
      { spoken: 'sv-SE', heard: null },
    ],
    [{ type: 'end', handoffData: '{"a":1}' }, { handoffData: '{"a":1}' }],
  ])('%j', (message, read) => {
    expect(readRelayMessage(JSON.stringify(message))).toMatchObject(read);
  });

  it.each([
    ['no json', 'it is not JSON'],
    ['[]', 'it is not an object'],
    ['{"type":"dance"}', 'type must be text, play, sendDigits, language or end, not "dance"'],
    ['{"type":"text"}', 'token must be a text'],
    ['{"type":"play","source":"file:///etc/passwd"}', 'source must be an absolute URL'],
    ['{"type":"sendDigits","digits":"x"}', 'digits must be keys'],
    ['{"type":"text","token":"a","interruptible":"maybe"}', 'interruptible must be'],
  ])('%s: %s', (text, problem) => {
    expect(() => readRelayMessage(text)).toThrow(problem);
  });
});
