import { expect, test } from 'vitest';
import { sentencesOf } from '../../src/speech/sentences.js';

test.each([
  ['Hello.', ['Hello.']],
  ['Hello. Press one. Or two.', ['Hello. Press one. Or two.']],
  [
    'Thank you for calling the front desk today. Your call is important to us! We pay $3.50 an hour.',
    ['Thank you for calling the front desk today.', 'Your call is important to us! We pay $3.50 an hour.'],
  ],
  ['Thank you for calling the front desk today. Bye.', ['Thank you for calling the front desk today. Bye.']],
  [
    'Hi. Thank you for calling the front desk of Example Airways, we are glad that you are here today.',
    ['Hi. Thank you for calling the front desk of Example Airways,', 'we are glad that you are here today.'],
  ],
  [
    'Well, we are glad that you are here and hope that you have all the time that there is in the world.',
    ['Well, we are glad that you are here and hope that you have all the time that there is in the world.'],
  ],
  [
    'Thank you for calling the front desk of Example Airways and we hope that you have a very good time while you wait for us',
    [
      'Thank you for calling the front desk of Example Airways and we hope',
      'that you have a very good time while you wait for us',
    ],
  ],
  ['no end of a sentence at all', ['no end of a sentence at all']],
  ['   \n ', []],
])('%j is spoken as %j', (text, parts) => {
  expect(sentencesOf(text)).toEqual(parts);
});

test('a text without ends is cut between words, and none of it is lost', () => {
  const text = Array.from({ length: 500 }, (_, i) => `word${i}`).join(' ');
  const parts = sentencesOf(text);
  expect(Math.max(...parts.map((part) => part.length))).toBeLessThanOrEqual(200);
  expect(parts.join(' ')).toBe(text);
  expect(sentencesOf('x'.repeat(1000)).join('')).toBe('x'.repeat(1000));
});
