// A formula, drawn by KaTeX. Loaded lazily (see Markdown.tsx). KaTeX builds elements, so that no HTML is made of the model's text.

import katex from 'katex';
import 'katex/dist/katex.min.css';
import { useLayoutEffect, useRef } from 'react';

interface Props {
  tex: string;
  /** `true` if it has a line of its own. */
  isBlock: boolean;
}

export default function Formula({ tex, isBlock }: Props) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const { current } = place;
    if (current === null) return;
    try {
      katex.render(tex, current, {
        displayMode: isBlock,
        throwOnError: false,
        errorColor: 'inherit',
        maxSize: 20,
      });
    } catch {
      current.textContent = tex;
    }
  }, [tex, isBlock]);
  return <span ref={place} className={isBlock ? 'block overflow-x-auto' : undefined} />;
}
