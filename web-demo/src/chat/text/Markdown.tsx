// A text of the model as Markdown. Loaded lazily (see Text.tsx). Raw HTML is never rendered, but shown as text.
// Nothing that the text names is fetched: pictures are links (see PictureLink.tsx).
//
// While a text grows, only its last block is parsed again, and what is missing at its end is completed.

import { isValidElement, lazy, Suspense, type ComponentProps, type ReactNode } from 'react';
import { harden } from 'rehype-harden';
import remarkGfm from 'remark-gfm';
import remarkMath from 'remark-math';
import type { RemendOptions } from 'remend';
import { Streamdown, type Components, type StreamdownProps } from 'streamdown';
import { CodeBlock } from './CodeBlock';
import { Diagram, IsGrowing } from './Diagram';
import { GROWING } from './growing';
import { withDirections } from './directions';
import { highlight } from './highlight';
import { ExternalLink } from './Links';
import { withDollars } from './math';
import { PictureLink } from './PictureLink';

const REMARK: NonNullable<StreamdownProps['remarkPlugins']> = [
  remarkGfm,
  [remarkMath, { singleDollarTextMath: false }],
];
/** Links with a scheme that may run something, and pictures made of data, become their text. */
const HARDEN = {
  allowedLinkPrefixes: ['*'],
  allowedImagePrefixes: ['*'],
  linkBlockPolicy: 'text-only',
  imageBlockPolicy: 'text-only',
} as const;
const REHYPE: NonNullable<StreamdownProps['rehypePlugins']> = [[harden, HARDEN], withDirections];

/** The language that the parser gives to formulas. */
const MATH = 'math';
const DIAGRAM = 'mermaid';
const languageOf = (className = '') => /language-(\S+)/.exec(className)?.[1];

/** Most texts have no formula. One that cannot be drawn is shown as it was written. */
const Formula = lazy(() =>
  import('./Formula').catch(() => ({ default: ({ tex }: { tex: string }) => <code>{tex}</code> })),
);

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
  pre: ({ children }) => {
    const { className, children: code } = isValidElement<ComponentProps<'code'>>(children)
      ? children.props
      : {};
    const language = languageOf(className);
    if (language === MATH) return children;
    if (language === DIAGRAM) return <Diagram text={textOf(code)}>{children}</Diagram>;
    return <CodeBlock language={language}>{children}</CodeBlock>;
  },
  code: ({ className, children }) => {
    const language = languageOf(className);
    if (typeof children !== 'string') return <code className={className}>{children}</code>;
    if (language !== MATH) return <code className={className}>{highlight(children, language)}</code>;
    return (
      <Suspense fallback={<code>{children}</code>}>
        <Formula tex={children} isBlock={className?.includes('math-display') === true} />
      </Suspense>
    );
  },
  table: ({ dir, children }) => (
    // A wide table scrolls by itself, even by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="table-scroll" tabIndex={0} role="group">
      <table dir={dir}>{children}</table>
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
    <IsGrowing value={isGrowing}>
      <Streamdown
        className="contents"
        components={ALL_COMPONENTS}
        remarkPlugins={REMARK}
        rehypePlugins={REHYPE}
        parseIncompleteMarkdown={isGrowing}
        remend={REMEND}
      >
        {withDollars(text, isGrowing)}
      </Streamdown>
    </IsGrowing>
  );
}
