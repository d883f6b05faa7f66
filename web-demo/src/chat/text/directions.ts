// The direction of each block of a text is that of its own first letter, so Arabic and English may stand in one answer. The browser finds
// the direction of a block. It does not for one around others, such as a list: their texts do not count for it.

interface Node {
  value?: string;
  tagName?: string;
  properties?: Record<string, unknown>;
  children?: Node[];
}

const BLOCKS = ['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'li', 'td', 'th'];
const AROUND_BLOCKS = ['ul', 'ol', 'blockquote', 'table'];
const LETTER = /\p{L}/u;
const FROM_THE_RIGHT =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/** A plugin of rehype. */
export const withDirections = () => direct;

function direct(node: Node) {
  const { tagName = '', properties, children = [] } = node;
  if (properties !== undefined && BLOCKS.includes(tagName)) properties['dir'] = 'auto';
  if (properties !== undefined && AROUND_BLOCKS.includes(tagName))
    properties['dir'] = FROM_THE_RIGHT.test(firstLetter(node) ?? '') ? 'rtl' : 'ltr';
  children.forEach(direct);
}

function firstLetter({ value = '', children = [] }: Node): string | undefined {
  const [own] = LETTER.exec(value) ?? [];
  if (own !== undefined) return own;
  for (const child of children) {
    const letter = firstLetter(child);
    if (letter !== undefined) return letter;
  }
  return undefined;
}
