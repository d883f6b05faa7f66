// A text of the model. Markdown comes in a chunk of its own, asked for as soon as the page is idle; until
// then the text is plain.

import { lazy, Suspense, type ComponentType } from 'react';

interface Props {
  text: string;
  /** `true` if it is still being written. */
  isGrowing?: boolean;
}

const Plain = ({ text }: Props) => (
  <p dir="auto" className="whitespace-pre-wrap">
    {text}
  </p>
);

/** A text without its form is better than none, should the chunk not come. */
const load = (): Promise<{ default: ComponentType<Props> }> =>
  import('./Markdown').catch(() => ({ default: Plain }));
const Markdown = lazy(load);

/** Loads what texts need, before there is one. */
export function preloadMarkdown() {
  // Safari has no requestIdleCallback.
  if (typeof requestIdleCallback === 'function') requestIdleCallback(() => void load());
  else setTimeout(() => void load(), 200);
}

export const Text = (props: Props) => (
  <div className="prose">
    <Suspense fallback={<Plain {...props} />}>
      <Markdown {...props} />
    </Suspense>
  </div>
);
