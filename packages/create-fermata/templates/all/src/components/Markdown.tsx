import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';

const components: Components = {
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  ),
};

/** A text of the model. Its HTML is shown as text, and pictures are left out: loading one would send its address to any host. */
export function Markdown({ text }: { text: string }) {
  return (
    <div dir="auto" className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components} disallowedElements={['img']}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
