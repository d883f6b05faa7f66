// The end of a Markdown text that is still being written, besides what remend completes by itself: it is completed as it
// will probably go on, so that no marks flash while it grows.

import type { RemendHandler } from 'remend';

/** A table's head at the end of a text, and as much of the line below it as has come. */
const HEAD = /(?<=^|\n\n)(\|[^\n]*)(?:\n([ :|-]*))?$/;

/** A head is one only with the line below it; until that has come, it would be shown as text with bars. */
function completeTable(text: string): string {
  const [whole = '', head, below = ''] = HEAD.exec(text) ?? [];
  if (head === undefined) return text;
  const before = text.slice(0, text.length - whole.length);
  if (head === '|') return before;
  const columns = cellsOf(head).length;
  const rule = cellsOf(below);
  const isWhole = rule.length === columns && rule.every((cell) => /^ *:?-+:? *$/.test(cell));
  return isWhole ? text : `${before}${head}\n${'| --- '.repeat(columns)}|`;
}

const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replaceAll('\\|', '')
    .replace(/^\||\|$/g, '')
    .split('|');

/** Marks at the very end. They may begin something or end it. */
const MARKS = /[*_~`]+$/;
/** A name in brackets, whose address is probably next. */
const NAME = /\[[^[\]\n]*\]$/;

/** They come before those of remend, whose priorities are above zero. */
export const GROWING: RemendHandler[] = [
  { name: 'space at the end', priority: -4, handle: (text) => text.trimEnd() },
  { name: 'head of a table', priority: -3, handle: completeTable },
  { name: 'marks at the end', priority: -2, handle: (text) => text.replace(MARKS, '') },
  { name: 'name of a link', priority: -1, handle: (text) => (NAME.test(text) ? `${text}(` : text) },
];
