/** Sentences for a recognition, and what it got wrong. */
export const sentences = [
  'The train to the airport leaves at half past seven from platform four.',
  'Please bring your passport and a warm coat, because it may snow in the evening.',
  'I would like to book a table for two people near the window.',
  'My order has not arrived yet, and nobody has answered my letters.',
  'Could you repeat the last part of your question, please?',
  'She opened the letter slowly and read every line twice.',
  'The doctor can see you on Thursday morning at a quarter to nine.',
  'We need three boxes of paper and a new lamp for the office.',
  'Yes, that is correct, but the street has a different name now.',
  'No, thank you, I am only calling to cancel my appointment.',
  'The weather was cold and windy, so the children stayed inside.',
  'My telephone number has changed since we talked in March.',
  'Turn left after the bridge and follow the river for two miles.',
  'He plays the piano while his sister sings old songs.',
  'Is there anything else that I can do for you today?',
  'The bill is much too high, and I want to speak with a manager.',
  'I forgot the password of my account and cannot sign in.',
  'Our garden has apple trees, roses and a small wooden bench.',
  'They sold the house last summer and moved to the coast.',
  'The meeting begins at ten, and lunch is served at noon.',
];

export const wordsOf = (text: string) =>
  text
    .toLowerCase()
    .replace(/[^a-z' ]+/g, ' ')
    .split(/\s+/)
    .filter(Boolean);

/** Substitutions, insertions and deletions. */
export function wordErrors(said: readonly string[], heard: readonly string[]): number {
  let row = heard.map((_, i) => i + 1);
  row.unshift(0);
  said.forEach((word, i) => {
    const next = [i + 1];
    heard.forEach((other, j) => {
      next.push(
        Math.min((row[j] as number) + (word === other ? 0 : 1), (row[j + 1] as number) + 1, (next[j] as number) + 1),
      );
    });
    row = next;
  });
  return row.at(-1) as number;
}
