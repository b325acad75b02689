/** What screening assistants, voicemail systems and operators say, in words that seldom occur in a person's greeting. */

/** Who answered a call that we placed, as far as it was recognized. */
export type SpokenAnswerer = 'screening' | 'machine' | 'operator';

/**
 * Regular expressions over text in lower case, without accents and punctuation, by language.
 */
const phrases: Readonly<Record<SpokenAnswerer, Readonly<Record<string, readonly string[]>>>> = {
  screening: {
    en: [
      'record your name', // iOS
      'see if (this|the) person is available',
      'screening service', // Google
      '(screening|to screen) (this|your|the) call',
      'being screened',
      'call assist(ant)? (by|from) google',
      // Whatever is to be done with it: the verb is misheard more often than the rest.
      'your name and (why|(the |your )?reason|what (this|it|you))',
      'please sa(y|ve) your name',
      'before i (try to )?connect you',
      '(state|say) your name (after|at) the (tone|beep)',
      'who is calling and why',
      'press \\w+ (to be connected|to connect|to complete (this|your) call)',
      'to (complete|connect|continue) (this|your|the) call press',
    ],
    es: [
      'graba tu nombre',
      'di(ga)? tu nombre y (el )?motivo',
      'indique su nombre y (el )?motivo',
      'filtrando (esta|tu) llamada',
    ],
    fr: ['enregistre[zr]? votre nom', 'votre nom et (la raison|le motif|l objet)', 'filtr(e|age) (cet|d) ?appel'],
    de: [
      'ihren namen und (den )?(grund|anlass)',
      'nennen sie (bitte )?ihren namen und',
      'ob die person (verfugbar|erreichbar) ist',
      'anruf(filter|assistent)',
    ],
    it: ['il (tuo|suo) nome e il motivo', 'filtro (delle )?chiamate'],
    pt: ['(seu|o teu) nome e o motivo', 'filtro de (chamadas|ligacoes)'],
    nl: ['je naam en de reden', 'uw naam en de reden'],
  },
  machine: {
    en: [
      'leave (me |us )?(a|your|the|my) (brief |short |detailed )?(message|name)',
      'after the (tone|beep)',
      'at the (tone|beep)',
      '(reached|forwarded to) (the )?(an )?(voice ?mail|voice messag|automat)',
      'voice ?mail(box)? (of|for|is|has)',
      'voice ?messag(e|ing) (system|service)',
      'record your message',
      '(can t|cannot|can not|unable to) (come to|take|answer) (the|your|my) (phone|call)',
      'mai?le? ?box is full',
      '(i am|i m|we are|we re) not available',
      'not available to take your call',
      'missed your call',
      '(i|we) (will|ll) (get|call) (right )?(you )?back( to you)?',
    ],
    es: ['deje su mensaje', 'dej[ae] (un|tu) mensaje', 'despues de(l| la) (tono|senal)', 'buzon de voz'],
    fr: ['laisse[zr] (un|votre|moi un) message', 'apres le (bip|signal)', 'messagerie vocale', 'boite vocale'],
    de: [
      'hinterlassen sie',
      'nach dem (signalton|piepton|ton)',
      '(mail|sprach)box',
      'anrufbeantworter',
      'nachricht nach',
    ],
    it: ['lascia(te|re)? un messaggio', 'dopo il (segnale|bip)', 'segreteria telefonica'],
    pt: ['deixe (a sua|sua|uma) mensagem', 'apos o (sinal|bip)', 'caixa postal', 'correio de voz'],
    nl: ['spreek (een|uw|je) (boodschap|bericht)', 'na de (piep|toon)', 'voicemail van'],
  },
  operator: {
    en: [
      'number you (have )?(dialed|dialled|called|reached)',
      'not in service',
      'been (disconnected|changed)',
      'cannot be completed as dial',
      'call (cannot|can not|could not) be (completed|connected)',
      '(subscriber|customer) you ((are|re) (calling|trying to reach)|(have|ve) (called|dial)).{0,4} (is|are|has) (not available|currently|switched)',
      'person you ((are|re) (calling|trying to reach)|(have|ve) called) (cannot|can not|is not) (accept|able)',
      'all circuits are',
      'try (your|the) call again',
      'please try again later',
      'check the number and (dial|try)',
    ],
    es: [
      'numero (que (usted )?ha marcado|marcado)',
      'no (existe|esta disponible|corresponde a ningun)',
      'telefono (al que llama|movil al que llama) esta apagado',
      'apagado o fuera de cobertura',
    ],
    fr: [
      'numero (que vous avez )?(compose|demande)',
      'n est (pas|plus) (attribue|en service)',
      'votre correspondant n est pas',
    ],
    de: [
      'kein anschluss unter dieser nummer',
      'gewahlte (ruf)?nummer',
      'rufnummer ist (nicht|uns)',
      'nicht vergeben',
      'gewunschte (gesprachspartner|teilnehmer)',
    ],
    it: [
      'numero (da lei )?(selezionato|chiamato|composto)',
      'non e (attivo|raggiungibile|al momento raggiungibile)',
      'cliente da lei chiamato',
    ],
    pt: [
      'numero (que voce )?(discou|marcou|chamado)',
      'nao (existe|esta disponivel|esta atribuido)',
      'fora da area de cobertura',
    ],
    nl: ['nummer dat u (heeft gekozen|belt)', 'niet in gebruik', 'dit nummer is niet'],
  },
};

export interface AnswererPhrase {
  answerer: SpokenAnswerer;
  language: string;
}

/** A screening asks for a message too; an operator does not, but says like a machine who is not there: the first that matches counts. */
const compiled = (['screening', 'machine', 'operator'] as const).flatMap((answerer) =>
  Object.entries(phrases[answerer]).map(([language, texts]) => ({
    answerer,
    language,
    pattern: new RegExp(`(^| )(${texts.join('|')})`),
  })),
);

/** Who says something like this; null: nobody that is known by words. */
export function answererOf(text: string): AnswererPhrase | null {
  const plain = text
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{Nd}]+/gu, ' ')
    .trim();
  const found = compiled.find(({ pattern }) => pattern.test(plain));
  return found === undefined ? null : { answerer: found.answerer, language: found.language };
}

/** The languages of the table. */
export const answererLanguages: readonly string[] = Object.keys(phrases.screening);
