/** What listeners say to show that they listen, in the languages of most callers; none of it is an answer. */
const words = new Set(
  [
    ...['ah', 'aha', 'hm', 'hmm', 'mh', 'mhm', 'mm', 'mmm', 'mmhm', 'mmhmm', 'oh', 'uh', 'uhhuh', 'um', 'huh', 'wow'],
    ...['yeah', 'yep', 'yup', 'ok', 'okay', 'right', 'alright', 'sure', 'cool', 'great', 'i', 'see', 'got', 'it'],
    ...['ja', 'genau', 'ach', 'so', 'gut', 'vale', 'claro', 'ya', 'ajá', 'oui', "d'accord", 'ouais', 'certo', 'sì'],
  ].map((word) => word.normalize('NFC')),
);
const most = 3;

/** Whether a text is an acknowledgement such as "uh-huh", "yeah, okay" or "I see". */
export function isBackchannel(text: string): boolean {
  const said = text
    .normalize('NFC')
    .toLowerCase()
    .replace(/-/g, '')
    .split(/[^\p{L}']+/u)
    .filter((word) => word !== '');
  return said.length > 0 && said.length <= most && said.every((word) => words.has(word));
}
