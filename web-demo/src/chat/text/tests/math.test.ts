// Which parts of a text are formulas.

import { expect, it } from 'vitest';
import { withDollars } from '../math';

it.each([
  ['parentheses', String.raw`so \(x_1 * y_2\) is`, '$$x_1 * y_2$$'],
  ['brackets in a line', String.raw`so \[x\,y\] is`, String.raw`$$x\,y$$`],
  ['brackets alone', 'so\n\\[\nx\n\\]\nis', 'so\n$$\nx\n$$\nis'],
  ['brackets alone in one line', String.raw`\[\int x\,dx\]`, '$$\n\\int x\\,dx\n$$'],
  ['brackets in a list', '- a\n  \\[ x \\]', '- a\n  $$\n  x\n  $$'],
  ['two dollars alone', '$$x^2$$', '$$\nx^2\n$$'],
  ['two dollars in a line', 'so $$x^2$$ is', 'so $$x^2$$ is'],
  ['one dollar', 'so $x^2$, and $y$.', 'so $$x^2$$, and $$y$$.'],
  ['a price in a formula', String.raw`so $x = \$5$ is`, String.raw`$$x = \$5$$`],
])('%s', (_, text, formula) => {
  expect(withDollars(text)).toContain(formula);
});

it.each([
  'It costs $5 and $10.',
  'From $5-$10 a piece, or $ 6 $.',
  'US$5 and CA$6',
  'Set $HOME/$USER.',
  String.raw`\$x\$ and \\(x\\)`,
  '`$x$` and ``\\(`x`\\)``',
  '```sh\necho $a$ \\[x\\]\n```\n',
  '~~~\n$$x$$\n~~~',
  '```\n$x$ goes on',
  'A $ alone, and \\( alone.',
  'one \\[ two\n\nthree \\] four',
])('%s has no formula', (text) => {
  expect(withDollars(text)).toBe(text);
});

it.each(['so \\(x^2', 'so \\[\nx', 'so $$x', 'so $$'])('an unfinished formula is not seen: %s', (text) => {
  expect(withDollars(text, true)).toBe('so ');
  expect(withDollars(text)).toBe(text);
});

it('takes no longer than the text is long', () => {
  for (const piece of ['\\(', '\\[', '$$', '$a', '`', '```\n', '\\'])
    expect(withDollars(piece.repeat(20_000)).length).toBeGreaterThan(0);
});
