// The parts of a message that every page draws in the same way.

import { Markdown } from './Markdown';

export function UserText({ text }: { text: string }) {
  return (
    <p dir="auto" className="leading-6 whitespace-pre-wrap wrap-anywhere">
      {text}
    </p>
  );
}

export function Reasoning({ text }: { text: string }) {
  if (text === '') return null;
  return (
    <details className="text-sm text-muted">
      <summary className="w-fit rounded py-1">Reasoning</summary>
      <div className="mt-1 border-s-2 border-line ps-3">
        <Markdown text={text} />
      </div>
    </details>
  );
}

/** A page that the answer cites. An address that is not of the web is shown without a link. */
export function Source({ url, title }: { url: string; title?: string | undefined }) {
  const words = title ?? url;
  return (
    <p dir="auto" className="text-sm wrap-anywhere text-muted">
      {/^https?:/.test(url) ? (
        <a href={url} target="_blank" rel="noreferrer" className="text-accent underline">
          {words}
        </a>
      ) : (
        words
      )}
    </p>
  );
}

/** A placeholder until the first word of the answer. */
export function Working() {
  return <p className="text-sm text-muted motion-safe:animate-pulse">Thinking…</p>;
}
