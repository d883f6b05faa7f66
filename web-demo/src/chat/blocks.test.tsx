import { renderToStaticMarkup } from 'react-dom/server';
import ReactMarkdown from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { expect, test } from 'vitest';
import { blocksOf } from './blocks';

const html = (text: string) =>
  renderToStaticMarkup(<ReactMarkdown remarkPlugins={[remarkGfm]}>{text}</ReactMarkdown>);
const flat = (markup: string) => markup.replace(/\n/g, '');

const TEXTS = {
  paragraphs: 'One.\n\nTwo\nstill two.\n\n\nThree.',
  heading: '# A\n\ntext\n\n## B\ntext',
  list: '- a\n\n- b\n\n  more of b\n\nAfter.',
  numbers: '1. a\n2. b\n\n3. c\n\nAfter.',
  'code with empty lines': 'Before:\n\n```js\nconst a = 1;\n\n# no heading\n\nb();\n```\n\nAfter.',
  'code in code': '````md\n```\n\ninner\n```\n\nstill\n````\n\nAfter.',
  'code without an end': 'Before\n\n~~~\na\n\nb',
  'code in a list': '- a\n\n  ```\n  x\n\n  y\n  ```\n\nAfter.',
  'indented code': '    a\n\n    b\n\nAfter.',
  table: 'T:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nAfter.',
  quote: '> a\n>\n> b\n\nAfter.',
  'link defined later': 'See [it][1].\n\nMore.\n\n[1]: https://example.com',
  footnote: 'A[^1].\n\nB.\n\n[^1]: Note.',
};

test.each(Object.entries(TEXTS))('%s: the blocks show what the whole shows', (_, text) => {
  expect(flat(blocksOf(text).map(html).join(''))).toBe(flat(html(text)));
});

test('what comes later leaves the blocks before it as they are', () => {
  const before = blocksOf('# A\n\nOne.\n\nTwo');
  const after = blocksOf('# A\n\nOne.\n\nTwo and more.\n\nThree');
  expect(after.slice(0, 2)).toEqual(before.slice(0, 2));
  expect(after).toHaveLength(4);
});
