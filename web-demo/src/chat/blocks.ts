// Where a Markdown text may be cut, so that its parts can be rendered one by one. A cut is made only where
// both sides mean the same alone as together; where in doubt, none is.

/** A definition of a link or a footnote is known to the whole text. */
const DEFINES = /^ {0,3}\[[^\]\n]+\]:/m;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** A line that may go on with the list, or the code, before the empty line. */
const GOES_ON = /^(\s|[-*+]\s|\d{1,9}[.)]\s)/;

export function blocksOf(text: string): string[] {
  if (DEFINES.test(text)) return [text];
  const blocks: string[] = [];
  let block: string[] = [];
  let fence: string | undefined;
  let isAfterGap = false;
  for (const line of text.split('\n')) {
    if (fence === undefined && isAfterGap && line !== '' && !GOES_ON.test(line)) {
      blocks.push(block.join('\n'));
      block = [];
    }
    const mark = FENCE.exec(line)?.[1];
    if (mark !== undefined && fence === undefined) fence = mark;
    else if (mark !== undefined && fence !== undefined && closes(line, mark, fence)) fence = undefined;
    isAfterGap = line.trim() === '' && block.some((before) => before.trim() !== '');
    block.push(line);
  }
  blocks.push(block.join('\n'));
  return blocks;
}

const closes = (line: string, mark: string, fence: string) =>
  mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark;
