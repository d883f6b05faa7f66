// JSON with numbers that JavaScript reads as others, such as 10000000000000000001, 1e400 or -0.
//
// Invariant: a number that nobody has edited is written as it was, or not at all.

/** Returns `true` if JavaScript reads a JSON text as it is: what it has read, written again, is the same text but for white space. */
export function isReadExactly(text: string): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
  } catch {
    return false;
  }
}

/** Returns `true` if JavaScript reads a number as the one that is written. */
export const isNumberReadExactly = (text: string): boolean =>
  decimalOf(text) === decimalOf(String(Number(text)));

/**
 * Writes an edited value as JSON. `shown` is the text of the value before the edit: a number that is in its old place and reads as before
 * is written as it was there.
 *
 * @throws RangeError if a number of the old text that JavaScript cannot read exactly may have moved to another place.
 */
export function editedText(shown: string, edited: unknown): string {
  const lost = new Set<number>();
  const tagged = shown.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return `"${STRING}${token.slice(1)}`;
    if (!isNumberReadExactly(token)) lost.add(Number(token));
    return `"${NUMBER}${token}"`;
  });
  return write(JSON.parse(tagged), edited, lost) ?? 'null';
}

/** A string or a number of a JSON text. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
/** With the numbers of a text as strings, every string of it begins with its kind. */
const STRING = 's';
const NUMBER = 'n';

function write(shown: unknown, edited: unknown, lost: ReadonlySet<number>): string | undefined {
  if (typeof edited === 'number') {
    if (typeof shown === 'string' && shown.startsWith(NUMBER) && Object.is(Number(shown.slice(1)), edited))
      return shown.slice(1);
    if (lost.has(edited))
      throw new RangeError(
        `The number ${edited} may stand for another one, which JavaScript cannot read exactly. Send the edit as inputText.`,
      );
    return JSON.stringify(edited);
  }
  if (Array.isArray(edited)) {
    const before: unknown[] = Array.isArray(shown) ? shown : [];
    return `[${edited.map((item, place) => write(before[place], item, lost) ?? 'null').join(',')}]`;
  }
  if (typeof edited !== 'object' || edited === null || 'toJSON' in edited) return JSON.stringify(edited);
  const before = typeof shown === 'object' && shown !== null ? (shown as Record<string, unknown>) : {};
  const fields = Object.entries(edited).flatMap(([name, value]) => {
    const known = Object.hasOwn(before, STRING + name) ? before[STRING + name] : undefined;
    const text = write(known, value, lost);
    return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
  });
  return `{${fields.join(',')}}`;
}

/** A number in one form for each value: its digits and the place of the last one. */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  if (whole === '') return text;
  const digits = (whole + fraction).replace(/^0+/, '');
  const trimmed = digits.replace(/0+$/, '');
  if (trimmed === '') return `${sign}0`;
  return `${sign}${trimmed}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - trimmed.length)}`;
}
