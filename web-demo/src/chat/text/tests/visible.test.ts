import { expect, test } from 'vitest';
import { inOneLine, invisibleIn, isLong, mixedIn, shown } from '../visible';

const seen = (text: string) => shown(text, true).head;
const invisible = (code: string) => ({ kind: 'invisible', code });

test.each([
  ['turns the direction', 'a\u202eb', ['a', invisible('U+202E'), 'b']],
  ['isolates a direction', '\u2066a\u2069', [invisible('U+2066'), 'a', invisible('U+2069')]],
  ['has no width', 'pass\u200bword', ['pass', invisible('U+200B'), 'word']],
  ['joins nothing', 'a\u200db', ['a', invisible('U+200D'), 'b']],
  ['is a tag', 'a\u{e0041}', ['a', invisible('U+E0041')]],
  ['varies nothing', 'a\ufe0f', ['a', invisible('U+FE0F')]],
  [
    'controls',
    '\u0000\u001b[2J\u0001',
    [invisible('U+0000'), invisible('U+001B'), '[2J', invisible('U+0001')],
  ],
  ['goes back to the beginning of the line', 'rm\rls', ['rm', invisible('U+000D'), 'ls']],
  ['ends a line in secret', 'a\u2028b', ['a', invisible('U+2028'), 'b']],
  ['is half of a character', 'a\ud800', ['a', invisible('U+D800')]],
  ['fills', '\u3164', [invisible('U+3164')]],
])('a character that %s is named', (_, text, pieces) => {
  expect(seen(text)).toEqual(pieces);
});

test.each([
  'Grüße, 牛奶, שלום',
  'one\n\ttwo\r\nthree',
  '👩‍👩‍👧 ❤️ 1️⃣ 👍🏽 🏳️‍🌈 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿',
  'می\u200cخواهم क्\u200dष ශ්\u200dරී',
  '葛\u{e0100}',
  // Emoji that are joined, coloured or shown as text, and flags.
  '👩🏽\u200d❤️\u200d💋\u200d👨🏻 🧑\u200d⚕️ ☎\ufe0e ☎️ 🇩🇪 #️⃣',
  '🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} 🏴\u{e0075}\u{e0073}\u{e0074}\u{e0078}\u{e007f}',
  // Joiners of Persian, Urdu, Devanagari, Bengali, Malayalam and Sinhala.
  'نمی\u200cدانم کتاب\u200cها ه\u200d',
  'र्\u200dक র\u200d্য ന്\u200d ශ්\u200dරී',
  // Marks of direction in Arabic and Hebrew, with numbers and Latin words.
  'السعر 5\u200e$ فقط',
  'הטלפון: \u200e+972-50-1234567\u200f, בבקשה',
  '\u200fשלום C++\u200e!',
  'الرقم\u061c 12-3',
  // Scripts without spaces between words.
  'ภาษา\u200bไทย ភាសា\u200bខ្មែរ ဘာသာ\u200bစကား',
  // Forms of letters and symbols, signs before numbers, old Korean, Braille and Mongolian.
  '﨑\ufe00 ，\ufe01 ∩\ufe00 \u0600١٢ ᄀ\u1160ᆨ ⠓⠑\u2800⠺⠕ ᠠ\u180eᠠ',
  'Привет, мир и ты: milk',
  'Ω, Δx, 5 μm and π',
])('what everybody sees is left as it is: %s', (text) => {
  expect(seen(text)).toEqual([text.replaceAll('\r\n', '\n')]);
});

const mixed = (letter: string, code: string) => ({ kind: 'mixed', letter, code });

test.each([
  ['p\u0430ypal', ['p', mixed('\u0430', 'U+0430'), 'ypal']],
  ['DE89 3704 00 \u0440', ['DE89 3704 00 ', mixed('\u0440', 'U+0440')]],
  ['\u0410pple', [mixed('\u0410', 'U+0410'), 'pple']],
  ['g\u03bfogle', ['g', mixed('\u03bf', 'U+03BF'), 'ogle']],
  ['Привет p\u0430ypal и', ['Привет p', mixed('\u0430', 'U+0430'), 'ypal и']],
])('a letter of another alphabet in %s is named', (text, pieces) => {
  expect(seen(text)).toEqual(pieces);
  expect(mixedIn({ list: [text] })).toEqual(
    pieces.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.code])),
  );
});

test.each([
  'a\u200db',
  '\u200c',
  'می\u200c\u200c\u200cخ',
  '🏴\u{e0061}\u{e0062}\u{e007f}',
  '葛\u{e0100}\u{e0101}',
  'pass\u200cword',
  'zero\u200bwidth',
  'left\u200emark',
  'right\u200fmark',
  'السعر\u200e\u200e\u200e',
  'abc \u202e مرحبا',
  '\u2067שלום\u2069',
  'שלום \u202dabc',
  '👍\u200dabc',
  '👍\ufe0f\ufe0f',
  'abc\u{e0067}\u{e0062}',
  '👍\u{e0067}\u{e007f}',
  'ไทย\u200babc',
  'a\u2800b',
  'x\ufe00',
])('what belongs to no word and to no picture is named: %j', (text) => {
  expect(invisibleIn(text).length).toBeGreaterThan(0);
});

test('blank space that could push something out of sight is counted', () => {
  expect(seen(`a${'\n'.repeat(201)}b`)).toEqual(['a\n', { kind: 'lines', count: 200 }, '\nb']);
  expect(seen(`a${'\n \t'.repeat(5)}\nb`)).toEqual(['a\n', { kind: 'lines', count: 5 }, '\nb']);
  expect(seen(`a${' '.repeat(500)}b`)).toEqual(['a', { kind: 'spaces', count: 500 }, 'b']);
  expect(seen('a\n\nb')).toEqual(['a\n\nb']);
});

test('a text that pretends to be a mark is a text', () => {
  expect(seen('\u0000lines 5\u0001')).toEqual([invisible('U+0000'), 'lines 5', invisible('U+0001')]);
});

test('a long text has its end, and says how much is between', () => {
  const lines = Array.from({ length: 100 }, (_, line) => `line ${line}`);
  expect(shown(lines.join('\n'), false)).toEqual({
    head: [lines.slice(0, 14).join('\n')],
    cut: {
      lines: 78,
      characters: lines.slice(14, 92).join('\n').length + 2,
      tail: [lines.slice(92).join('\n')],
    },
  });
});

test('no cut goes through a character or a mark', () => {
  for (let before = 0; before < 12; before++) {
    for (const one of ['👍', '\u202e', '\u{e0041}']) {
      const { head, cut } = shown('x'.repeat(before) + one.repeat(1500), false);
      const odd = [...head, ...(cut?.tail ?? [])].filter(
        (piece) =>
          typeof piece === 'string' &&
          /^[\ud800-\udfff]$|[\ud800-\udbff]$|^[\udc00-\udfff]|U\+|[\u0000\u0001]/.test(piece),
      );
      expect(odd).toEqual([]);
    }
  }
});

test('what is long by its lines or by its characters is cut', () => {
  expect([
    isLong('x'.repeat(1500)),
    isLong('x'.repeat(1501)),
    isLong('\n'.repeat(30)),
    isLong('x\n'.repeat(24)),
    isLong('x\n'.repeat(22)),
  ]).toEqual([false, true, false, true, false]);
});

test('names and titles are one line', () => {
  expect(inOneLine('wri\u200bte\n\n note\u202e')).toBe('wri[U+200B]te note[U+202E]');
  expect(invisibleIn({ 'a\u200b': ['\u202e', { b: 'ok' }] })).toEqual(['U+200B', 'U+202E']);
});
