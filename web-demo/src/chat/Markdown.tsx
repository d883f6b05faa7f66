// A text of the model as Markdown. Loaded lazily (see Text.tsx). Raw HTML is never rendered: react-markdown
// shows it as text. Nothing that the text names is fetched: pictures are links (see Links.tsx).
//
// While a text grows, only its last block is parsed again, and what is missing at its end is completed.

import { memo, type ComponentProps, type ReactNode } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import { harden } from 'rehype-harden';
import remarkGfm from 'remark-gfm';
import { blocksOf } from './blocks';
import { CodeBlock } from './CodeBlock';
import { completed } from './growing';
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
const REHYPE: ComponentProps<typeof ReactMarkdown>['rehypePlugins'] = [[harden, HARDEN]];

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
  table: ({ children }: ComponentProps<'table'>) => (
    // A wide table scrolls by itself, also by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="group">
      <table>{children}</table>
    </div>
  ),
};

const Block = memo(({ text }: { text: string }) => (
  <ReactMarkdown remarkPlugins={REMARK} rehypePlugins={REHYPE} components={COMPONENTS}>
    {text}
  </ReactMarkdown>
));
Block.displayName = 'Block';

export default function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  const blocks = blocksOf(text);
  return blocks.map((block, place) => (
    <Block key={place} text={isGrowing && place === blocks.length - 1 ? completed(block) : block} />
  ));
}
