// Finds formulas in a Markdown text, and writes all of them with the two dollars that the parser knows: `\(…\)`, `\[…\]` and `$…$`
// are what models write, and Markdown would take their backslashes and underscores for its own.
//
// A single dollar begins a formula as in pandoc, so that prices stay prices: no space follows it, and the one that ends it has no
// space before it and no letter or digit behind it. No formula has an empty line in it.

/** The marks around formulas, besides a single dollar. Only a formula with those of the second kind may have lines of its own. */
const MARKS: Record<string, { end: string; isBlock: boolean }> = {
  '\\(': { end: '\\)', isBlock: false },
  '\\[': { end: '\\]', isBlock: true },
  $$: { end: '$$', isBlock: true },
};

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const WORD = /[\p{L}\p{N}_$]/u;

/** The text with its formulas between two dollars. While it grows, a formula whose end has not come is left out. */
export function withDollars(text: string, isGrowing = false): string {
  if (!/[$\\]/.test(text)) return text;
  const emptyLine = finder(text, /\n[ \t]*\n/g);
  const ends = Object.fromEntries(Object.values(MARKS).map(({ end }) => [end, finder(text, end)]));
  let written = '';
  let at = 0;
  const copy = (to: number) => {
    written += text.slice(at, to);
    at = to;
  };
  while (at < text.length) {
    if (at === 0 || text[at - 1] === '\n') {
      const end = endOfFence(text, at);
      if (end !== undefined) {
        copy(end);
        continue;
      }
    }
    const mark = MARKS[text.slice(at, at + 2)];
    if (mark !== undefined) {
      const start = at + 2;
      const end = ends[mark.end]?.(start) ?? Infinity;
      const limit = emptyLine(at);
      if (end < limit) {
        const formula = text.slice(start, end);
        const indent = mark.isBlock ? indentOf(text, at, end + 2) : undefined;
        written +=
          indent === undefined
            ? `$$${formula.replaceAll('\n', ' ')}$$`
            : ['$$', ...formula.trim().split('\n'), '$$'].join(`\n${indent}`);
        at = end + 2;
      } else if (isGrowing && limit === Infinity) return written;
      else copy(start);
      continue;
    }
    switch (text[at]) {
      case '\\':
        copy(at + 2);
        break;
      case '`':
        copy(endOfCode(text, at));
        break;
      case '$': {
        const end = endOfDollar(text, at);
        if (end !== undefined) written += `$$${text.slice(at + 1, end)}$$`;
        if (end === undefined) copy(at + 1);
        else at = end + 1;
        break;
      }
      case undefined:
      default: {
        const special = /[\\`$\n]/g;
        special.lastIndex = at;
        const next = special.exec(text);
        copy(next === null ? text.length : next[0] === '\n' ? next.index + 1 : next.index);
      }
    }
  }
  return written;
}

/** Finds the next place of something, `Infinity` if there is none. It is asked for places further and further on, and looks once. */
function finder(text: string, what: string | RegExp): (from: number) => number {
  let found = -1;
  return (from) => {
    if (found >= from) return found;
    if (typeof what === 'string') found = text.indexOf(what, from);
    else {
      what.lastIndex = from;
      found = what.exec(text)?.index ?? -1;
    }
    if (found < 0) found = Infinity;
    return found;
  };
}

const endOfLine = (text: string, from: number) => {
  const end = text.indexOf('\n', from);
  return end < 0 ? text.length : end;
};

/** Returns the end of the block of code that begins with the line at this place. */
function endOfFence(text: string, start: number): number | undefined {
  let end = endOfLine(text, start);
  const [, fence] = FENCE.exec(text.slice(start, end)) ?? [];
  if (fence === undefined) return undefined;
  while (end < text.length) {
    const line = end + 1;
    end = endOfLine(text, line);
    const [whole, other = ''] = FENCE.exec(text.slice(line, end)) ?? [];
    const isSame = other.startsWith(fence) && text.slice(line + (whole?.length ?? 0), end).trim() === '';
    if (isSame) break;
  }
  return end;
}

/** Returns the end of code in a line: as many backticks as it begins with. Without them, the first ones are text. */
function endOfCode(text: string, start: number): number {
  const run = /`+/y;
  run.lastIndex = start;
  const ticks = run.exec(text)?.[0] ?? '`';
  let end = start + ticks.length;
  for (;;) {
    const next = text.indexOf(ticks, end);
    if (next < 0) return start + ticks.length;
    run.lastIndex = next;
    const other = run.exec(text)?.[0] ?? ticks;
    end = next + other.length;
    if (other === ticks) return end;
  }
}

/** Returns the place of the dollar that ends the formula of the dollar at this place. */
function endOfDollar(text: string, start: number): number | undefined {
  if (WORD.test(text[start - 1] ?? '') || /[\s$]/.test(text[start + 1] ?? ' ')) return undefined;
  let end = start + 1;
  while (end < text.length && text[end] !== '$' && text[end] !== '\n') end += text[end] === '\\' ? 2 : 1;
  const isEnd = text[end] === '$' && !/\s/.test(text[end - 1] ?? ' ') && !WORD.test(text[end + 1] ?? '');
  return isEnd ? end : undefined;
}

/** Returns the space before a piece of the text in its line, if nothing but space is before and behind it. */
function indentOf(text: string, start: number, end: number): string | undefined {
  const before = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
  const behind = text.slice(end, endOfLine(text, end));
  return before.trim() === '' && behind.trim() === '' ? before : undefined;
}
