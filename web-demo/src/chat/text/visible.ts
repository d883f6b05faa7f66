// Texts of a model or a tool as a person can judge them: what is invisible or turns the direction of writing
// is named, blank space that could push something out of sight is counted, and a long text keeps its end as
// well as its beginning.
//
// Knows nothing of React. What takes the place of something stands between two characters that no text can
// have any more by then.

const BEGIN = '\u0000';
const END = '\u0001';

/** Letters that are written from the right to the left. */
const RTL = String.raw`[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Script=Mandaic}\p{Script=Hanifi_Rohingya}]`;
/** Scripts whose letters join, or change their form, and have characters to say how. */
const JOINING = String.raw`[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Adlam}\p{Script=Mandaic}\p{Script=Hanifi_Rohingya}\p{Script=Mongolian}\p{Script=Phags_Pa}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Balinese}\p{Script=Javanese}\p{Script=Tai_Tham}]`;
/** Scripts without spaces between words. */
const UNSPACED = String.raw`[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Tai_Tham}\p{Script=Balinese}\p{Script=Javanese}]`;
const PICTURE = String.raw`\p{Extended_Pictographic}`;
const MARKS_OF_DIRECTION = String.raw`\u061c\u200e\u200f`;

/** One of these characters where it stands between `before` and `after`. Two in a row belong to nothing. */
const one = (characters: string, before: string, after = '') =>
  `(?=[${characters}])(?<=${before})[${characters}](?![${characters}])${after}`;

/** Characters without a shape that belong to a script or to a picture, where they stand. */
const BELONGS = [
  // The flags of England, Scotland, Wales and Northern Ireland, and of states of the USA.
  String.raw`\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e006e}\u{e0069}\u{e0072}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}`,
  String.raw`\u{1f3f4}\u{e0075}\u{e0073}[\u{e0061}-\u{e007a}]{2}\u{e007f}`,
  // Pictures that make one, and the form of a character: in colour or not.
  one(String.raw`\u200d`, String.raw`[${PICTURE}\p{Emoji_Modifier}]\ufe0f?`, `(?=${PICTURE})`),
  one(String.raw`\ufe0e\ufe0f`, String.raw`\p{Emoji}`),
  // Forms of letters and of symbols.
  one(String.raw`\u200c\u200d`, String.raw`${JOINING}\p{M}*`),
  one(String.raw`\u180b-\u180f`, String.raw`\p{Script=Mongolian}`),
  one(String.raw`\ufe00-\ufe02\u{e0100}-\u{e01ef}`, String.raw`\p{Script=Han}`),
  one(String.raw`\ufe00\ufe01`, String.raw`[\p{Sm}\p{Script=Myanmar}\p{Script=Phags_Pa}、。，．：；！？]`),
  one(String.raw`\u1160`, String.raw`[\u1100-\u115f]`),
  String.raw`\u115f(?=[\u1160-\u11a7])`,
  one(String.raw`\u034f`, String.raw`\p{Script=Hebrew}\p{M}*`, String.raw`(?=\p{M})`),
  // Between words, and between words and numbers.
  one(String.raw`\u200b`, String.raw`${UNSPACED}\p{M}*`, `(?=${UNSPACED})`),
  one(String.raw`\u2800`, String.raw`[\u2801-\u28ff]`, String.raw`(?=[\u2801-\u28ff])`),
  one(MARKS_OF_DIRECTION, String.raw`${RTL}[^\n]{0,80}`),
  String.raw`[${MARKS_OF_DIRECTION}](?=[^\n${MARKS_OF_DIRECTION}]{0,80}${RTL})`,
  // Signs before a number, which are seen.
  String.raw`[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}]`,
].join('|');

/** Control characters, those that turn the direction of writing, and those without a shape. */
const UNSEEN = String.raw`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800`;
/** Line ends and tabs are visible. Most characters are no candidates, so they are skipped first. */
const INVISIBLE = new RegExp(
  String.raw`(?=[${UNSEEN}\u{1f3f4}])(?:(?<kept>${BELONGS})|\r(?!\n)|(?![\n\r\t])[${UNSEEN}])`,
  'gu',
);
/** More than two empty lines in a row, and spaces that are more than an indentation. */
const BLANK = /\n(?:[^\S\n]*\n){3,}|[^\S\n]{40,}/g;

export type Piece =
  | string
  | { kind: 'invisible'; code: string }
  /** A letter that looks like one of another alphabet, in a word of that. */
  | { kind: 'mixed'; letter: string; code: string }
  | { kind: 'lines' | 'spaces'; count: number };

const codeOf = (character: string) =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

/** Replaces what is not seen. Sequences that make one picture or one letter are seen. */
const replaceInvisible = (text: string, replace: (code: string) => string): string =>
  text.replace(INVISIBLE, (found: string, kept: string | undefined) => kept ?? replace(codeOf(found)));

/** The text with everything in it that is not seen, or not what it seems, put between marks. */
const mark = (text: string): string =>
  replaceInvisible(text, (code) => `${BEGIN}${code}${END}`)
    .replace(foreignLetters(text), (letter) => `${BEGIN}mixed ${letter}${END}`)
    .replaceAll('\r\n', '\n')
    .replace(BLANK, (blank) =>
      blank.startsWith('\n')
        ? `\n${BEGIN}lines ${blank.split('\n').length - 2}${END}\n`
        : `${BEGIN}spaces ${blank.length}${END}`,
    );

function piecesOf(marked: string): Piece[] {
  return marked.split(BEGIN).flatMap((part, place): Piece[] => {
    if (place === 0) return part === '' ? [] : [part];
    const end = part.indexOf(END);
    const [kind = '', count] = part.slice(0, end).split(' ');
    const after = part.slice(end + 1);
    const piece: Piece =
      kind === 'mixed'
        ? { kind, letter: count ?? '', code: codeOf(count ?? '') }
        : kind === 'lines' || kind === 'spaces'
          ? { kind, count: Number(count) }
          : { kind: 'invisible', code: kind };
    return after === '' ? [piece] : [piece, after];
  });
}

/** A text in one line, for a title or a list, with names for what is not seen. */
export const inOneLine = (text: string): string =>
  replaceInvisible(text, (code) => `[${code}]`)
    .replace(foreignLetters(text), (letter) => `${letter}[${codeOf(letter)}]`)
    .replace(/\s+/g, ' ');

/**
 * The codes of a value's characters that are not seen, each as often as it is there, in its texts and in the
 * names of its fields.
 */
export const invisibleIn = (value: unknown): string[] =>
  textsIn(value).flatMap((text) => {
    const found = [...text.matchAll(INVISIBLE)].filter(({ groups }) => groups?.['kept'] === undefined);
    return found.map(([character]) => codeOf(character));
  });

/** The codes of a value's letters that look like those of another alphabet, in words or texts of that. */
export const mixedIn = (value: unknown): string[] =>
  textsIn(value).flatMap((text) => (text.match(foreignLetters(text)) ?? []).map(codeOf));

/** The texts of a value, and the names of its fields. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => [
    ...(Array.isArray(value) ? [] : [name]),
    ...textsIn(field),
  ]);
}

// === letters of another alphabet ===

/** Letters of other alphabets that look like Latin ones. */
const LOOKALIKE = '\\p{Script=Cyrillic}ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαυνικρ';
const NOTHING = /(?!)/gu;
/** Such a letter in a word with a Latin letter. */
const IN_WORD = `[${LOOKALIKE}](?=[\\p{L}\\p{M}]*\\p{Script=Latin})|(?<=\\p{Script=Latin}[\\p{L}\\p{M}]*)[${LOOKALIKE}]`;
const MIXED = new RegExp(IN_WORD, 'gu');
/** Such a letter in a word with a Latin letter, or by itself. */
const MIXED_OR_ALONE = new RegExp(`${IN_WORD}|(?<![\\p{L}\\p{M}])[${LOOKALIKE}](?![\\p{L}\\p{M}])`, 'gu');

/** Returns the pattern of letters that pretend to be Latin. A single letter does so if no word is of its alphabet. */
function foreignLetters(text: string): RegExp {
  if (!/\p{Script=Latin}/u.test(text) || !new RegExp(`[${LOOKALIKE}]`, 'u').test(text)) return NOTHING;
  return /(?<![\p{L}\p{M}])[\p{Script=Cyrillic}\p{Script=Greek}]{2}/u.test(text) ? MIXED : MIXED_OR_ALONE;
}

// === the beginning and the end ===

const MAX_CHARACTERS = 1_500;
const MAX_LINES = 24;
const HEAD = { characters: 900, lines: 14 };
const TAIL = { characters: 500, lines: 8 };

export interface Shown {
  head: Piece[];
  /** The size of the gap, and the text after it. */
  cut?: { lines: number; characters: number; tail: Piece[] };
}

export const isLong = (text: string): boolean => {
  const marked = mark(text);
  return marked.length > MAX_CHARACTERS || marked.split('\n', MAX_LINES + 1).length > MAX_LINES;
};

/** All of a text, or its beginning and its end. */
export function shown(text: string, isWhole: boolean): Shown {
  if (isWhole || !isLong(text)) return { head: piecesOf(mark(text)) };
  const marked = mark(text);
  const from = afterMark(marked, Math.min(HEAD.characters, marked.split('\n', HEAD.lines).join('\n').length));
  const to = beforeMark(
    marked,
    Math.max(
      marked.length - TAIL.characters,
      marked.length - marked.split('\n').slice(-TAIL.lines).join('\n').length,
      from,
    ),
  );
  return {
    head: piecesOf(marked.slice(0, from)),
    cut: { ...sizeOf(piecesOf(marked.slice(from, to))), tail: piecesOf(marked.slice(to)) },
  };
}

function sizeOf(pieces: Piece[]): { lines: number; characters: number } {
  let [lines, characters] = [0, 0];
  for (const piece of pieces) {
    if (typeof piece === 'string') {
      lines += piece.split('\n').length - 1;
      characters += piece.length;
    } else {
      const count = piece.kind === 'invisible' || piece.kind === 'mixed' ? 1 : piece.count;
      lines += piece.kind === 'lines' ? count : 0;
      characters += count;
    }
  }
  // The line ends at both sides are of lines that are shown.
  return { lines: Math.max(1, lines - 1), characters };
}

/** The next place that is not inside of a mark, or of a character of two halves. */
function afterMark(marked: string, place: number): number {
  if (marked.lastIndexOf(BEGIN, place - 1) > marked.lastIndexOf(END, place - 1))
    return marked.indexOf(END, place) + 1;
  return isBetweenHalves(marked, place) ? place + 1 : place;
}

function beforeMark(marked: string, place: number): number {
  const begin = marked.lastIndexOf(BEGIN, place - 1);
  if (begin > marked.lastIndexOf(END, place - 1)) return begin;
  return isBetweenHalves(marked, place) ? place - 1 : place;
}

const isBetweenHalves = (text: string, place: number) =>
  /[\udc00-\udfff]/.test(text.charAt(place)) && /[\ud800-\udbff]/.test(text.charAt(place - 1));
