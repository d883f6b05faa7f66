// The end of a Markdown text that is still being written, completed as it will probably go on, so that no
// marks flash while it grows.

import remend from 'remend';

/** A table's head, and as much of the line below it as has come. */
const HEAD = /^(\|[^\n]*)(?:\n([ :|-]*))?$/;

/** A head is one only with the line below it; until that has come, it would be shown as text with bars. */
function completeTable(block: string): string {
  const [, head, below = ''] = HEAD.exec(block) ?? [];
  if (head === undefined) return block;
  if (head === '|') return '';
  const columns = cellsOf(head).length;
  const rule = cellsOf(below);
  const isWhole = rule.length === columns && rule.every((cell) => /^ *:?-+:? *$/.test(cell));
  return isWhole ? block : `${head}\n${'| --- '.repeat(columns)}|`;
}

const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replaceAll('\\|', '')
    .replace(/^\||\|$/g, '')
    .split('|');

/** Marks at the very end, of which nobody knows yet whether they begin something or end it. */
const MARKS = /[*_~`]+$/;
/** A name in brackets, whose address is probably next. */
const NAME = /\[[^[\]\n]*\]$/;

/** The last block of a text that grows, completed. */
export function completed(block: string): string {
  const text = completeTable(block.trimEnd()).replace(MARKS, '');
  return remend(NAME.test(text) ? `${text}(` : text, { linkMode: 'text-only' });
}
