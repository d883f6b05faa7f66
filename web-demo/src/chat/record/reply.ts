// A typed reply to calls that wait for a decision: whether its meaning is clear.
//
// The server knows the words of consent in full (docs/guide/consent.md). This module is stricter: a word that it does not know is asked
// about, which costs a person one click. A call that is cancelled by mistake costs more.

/** The words that deny. The server names only those that approve. */
const DENY: readonly string[] = [
  ...['no', 'n', 'nope', 'nah', 'stop', 'cancel', 'deny', 'reject', "don't", 'do not'],
  ...['不', '取消', '不要', '不行', '不可以', '不同意', '不用', '否', '拒绝', '拒絕', '算了', '别', '停止'],
  ...['cancelar', 'rechazar', 'non', 'annuler', 'refuser', "pas d'accord", 'nein', 'abbrechen', 'ablehnen'],
  ...['いいえ', 'いや', 'キャンセル', '拒否', '中止', 'やめて', '👎', '❌'],
];

const POLITE =
  /^(?:please|请|請)[ ,]*|[ ,、]+(?:please|thanks|thank you|bitte|danke|por favor|gracias|merci)$|(?:吧|的|了|谢谢|謝謝|です|ください|お願いします)$/u;

/** A reply of at most so many words is short, and of at most so many columns. A letter of Chinese or Japanese takes two. */
const MOST_WORDS = 5;
const MOST_COLUMNS = 40;
const WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/gu;

/**
 * Returns `true` if a reply could be meant as an answer to calls that wait, and is none: it is short, asks nothing, and is no word of
 * consent. As a message it would cancel them.
 */
export function isUnclearReply(text: string, confirmWords: readonly string[] = []): boolean {
  return isShort(text.trim()) && !isConsent(text, confirmWords);
}

function isShort(text: string): boolean {
  const columns = text.length + (text.match(WIDE)?.length ?? 0);
  return (
    text !== '' && !/[?？؟\n]/.test(text) && columns <= MOST_COLUMNS && text.split(/\s+/).length <= MOST_WORDS
  );
}

/** Without words that approve, no word decides. */
function isConsent(text: string, confirmWords: readonly string[]): boolean {
  if (confirmWords.length === 0) return false;
  const known = new Set([...confirmWords, ...DENY].map(folded));
  let said = folded(text);
  for (;;) {
    if (known.has(said)) return true;
    const rest = folded(said.replace(POLITE, ''));
    if (rest === said) return false;
    said = rest;
  }
}

/** Full-width and half-width forms are folded, and no other forms: the server takes a circled or a mathematical letter for no letter. */
const folded = (text: string): string =>
  text
    .replace(/[\uff01-\uff9d]/g, (wide) => wide.normalize('NFKC'))
    .normalize('NFC')
    .toLowerCase()
    .replaceAll('’', "'")
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[ .!。]+$/, '');
