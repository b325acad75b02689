/** Words of spoken numbers, without accents and in lower case, by language. */

export interface NumberWords {
  /** Parts of a number; languages that join them into one word (`einundzwanzig`, `ventuno`) are covered. */
  parts: string;
  /** Words that belong to a number only beside one: connectives, and what digits are often misheard as. */
  beside: string;
}

export const numberWords: Readonly<Record<string, NumberWords>> = {
  en: {
    parts:
      'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fourty fifty sixty seventy eighty ninety hundred thousand million nought niner',
    beside: 'oh o to too for fore ate won tree double triple and point dash minus a',
  },
  es: {
    parts:
      'cero un uno una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieci veinte veinti treinta cuarenta cincuenta sesenta setenta ochenta noventa cien ciento cientos quinientos setecientos novecientos mil millon millones',
    beside: 'y doble guion',
  },
  fr: {
    parts:
      'zero un une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize vingt vingts trente quarante cinquante soixante septante octante huitante nonante cent cents mille million millions',
    beside: 'et double tiret',
  },
  de: {
    parts:
      'null ein eins eine zwei zwo drei vier funf fuenf sechs sech sieben sieb acht neun zehn elf zwolf zwoelf zwanzig dreissig dreißig vierzig funfzig fuenfzig sechzig siebzig achtzig neunzig hundert tausend million millionen',
    beside: 'und doppel strich mal',
  },
  it: {
    parts:
      'zero un uno una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove venti vent trenta trent quaranta quarant cinquanta cinquant sessanta sessant settanta settant ottanta ottant novanta novant cento cent mille mila milione milioni',
    beside: 'e doppio trattino',
  },
  pt: {
    parts:
      'zero um uma dois duas tres quatro cinco seis meia sete oito nove dez onze doze treze catorze quatorze quinze dezesseis dezasseis dezessete dezassete dezoito dezenove dezanove vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem cento duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos mil milhao',
    beside: 'e duplo traco',
  },
  nl: {
    parts:
      'nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien achttien negentien twintig dertig veertig vijftig zestig zeventig tachtig negentig honderd duizend miljoen',
    beside: 'en dubbel streepje',
  },
  sv: {
    parts:
      'noll en ett tva tre fyra fem sex sju atta nio tio elva tolv tretton fjorton femton sexton sjutton arton nitton tjugo trettio fyrtio femtio sextio sjuttio attio nittio hundra tusen miljon',
    beside: 'och dubbel',
  },
  pl: {
    parts:
      'zero jeden jedna dwa dwie trzy cztery piec szesc siedem osiem dziewiec dziesiec jedenascie dwanascie trzynascie czternascie pietnascie szesnascie siedemnascie osiemnascie dziewietnascie dwadziescia trzydziesci czterdziesci piecdziesiat szescdziesiat siedemdziesiat osiemdziesiat dziewiecdziesiat sto dwiescie trzysta czterysta piecset szescset siedemset osiemset dziewiecset tysiac tysiace tysiecy',
    beside: 'i podwojne',
  },
  ru: {
    parts:
      'ноль нуль один одна два две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот тысяча тысячи тысяч',
    beside: 'и',
  },
};

/** Numerals of Chinese and Japanese, where words have no spaces between them. */
export const ideographicNumerals = '零〇○一二三四五六七八九十百千万億亿兩两幺壹貳贰叁參肆伍陸陆柒捌玖拾';
