// A text of the model as Markdown. Loaded lazily (see Text.tsx). Raw HTML is never rendered, but shown as text.
// Nothing that the text names is fetched: pictures are links (see Links.tsx).
//
// While a text grows, only its last block is parsed again, and what is missing at its end is completed.

import type { ReactNode } from 'react';
import { harden } from 'rehype-harden';
import remarkGfm from 'remark-gfm';
import type { RemendOptions } from 'remend';
import { Streamdown, type Components, type StreamdownProps } from 'streamdown';
import { CodeBlock } from './CodeBlock';
import { GROWING } from './growing';
import { highlight } from './highlight';
import { ExternalLink, PictureLink } from './Links';

const REMARK = [remarkGfm];
/** Links with a scheme that may run something, and pictures made of data, become their text. */
const HARDEN = {
  allowedLinkPrefixes: ['*'],
  allowedImagePrefixes: ['*'],
  linkBlockPolicy: 'text-only',
  imageBlockPolicy: 'text-only',
} as const;
const REHYPE: NonNullable<StreamdownProps['rehypePlugins']> = [[harden, HARDEN]];

const textOf = (children: ReactNode): string =>
  Array.isArray(children) ? children.map(textOf).join('') : typeof children === 'string' ? children : '';

const COMPONENTS: Components = {
  a: ({ href = '', children }) =>
    // A footnote and its way back stay on the page.
    href.startsWith('#') ? (
      <a href={href}>{children}</a>
    ) : (
      <ExternalLink address={href} text={textOf(children)}>
        {children}
      </ExternalLink>
    ),
  img: ({ src, alt = '' }) => (typeof src === 'string' ? <PictureLink address={src} name={alt} /> : alt),
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  code: ({ className, children }) => (
    <code className={className}>
      {typeof children === 'string'
        ? highlight(children, /language-(\S+)/.exec(className ?? '')?.[1])
        : children}
    </code>
  ),
  table: ({ children }) => (
    // A wide table scrolls by itself, also by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="group">
      <table>{children}</table>
    </div>
  ),
};

const REMEND: RemendOptions = { linkMode: 'text-only', handlers: GROWING };

/** The page has a style of its own for these. */
const PLAIN = [
  'p',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'ul',
  'ol',
  'li',
  'blockquote',
  'hr',
  'strong',
  'em',
  'del',
  'thead',
  'tbody',
  'tr',
  'th',
  'td',
  'section',
  'sup',
  'sub',
  'input',
] as const;
const ALL_COMPONENTS: Components = { ...Object.fromEntries(PLAIN.map((tag) => [tag, tag])), ...COMPONENTS };

export default function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  return (
    <Streamdown
      className="contents"
      components={ALL_COMPONENTS}
      remarkPlugins={REMARK}
      rehypePlugins={REHYPE}
      parseIncompleteMarkdown={isGrowing}
      remend={REMEND}
    >
      {text}
    </Streamdown>
  );
}
