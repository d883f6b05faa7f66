// A text of the model as Markdown. Loaded lazily (see Text.tsx). Raw HTML is never rendered: react-markdown shows it as text.
//
// While a text grows, only its last block is parsed again.

import { memo, type ComponentProps } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { blocksOf } from './blocks';
import { CodeBlock } from './CodeBlock';

const PLUGINS = [remarkGfm];

const COMPONENTS: Components = {
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ),
  img: ({ src, alt }) => <img src={src} alt={alt ?? ''} loading="lazy" />,
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  table: ({ children }: ComponentProps<'table'>) => (
    // A wide table scrolls by itself, also by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="group">
      <table>{children}</table>
    </div>
  ),
};

const Block = memo(({ text }: { text: string }) => (
  <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
    {text}
  </ReactMarkdown>
));
Block.displayName = 'Block';

export default function Markdown({ text }: { text: string }) {
  return blocksOf(text).map((block, place) => <Block key={place} text={block} />);
}
