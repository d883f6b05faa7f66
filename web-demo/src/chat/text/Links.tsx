// Links that a model or a tool names. Nothing is fetched from anywhere before somebody clicks, and every link says which
// host it leads to.

import { createContext, useContext, type ReactNode } from 'react';
import { hostOf, safeAddress } from './address';

/** A link may not stand in a link. */
export const InLink = createContext(false);

interface LinkProps {
  address: string;
  /** The text of the link. The host is not repeated if the text is the address itself. */
  text?: string | undefined;
  className?: string;
  children: ReactNode;
}

/** A link to another page, with its host behind it. */
export function ExternalLink({ address, text, className, children }: LinkProps) {
  const isInLink = useContext(InLink);
  const href = safeAddress(address);
  const host = hostOf(address);
  if (isInLink || href === undefined || host === undefined)
    return <span className={className}>{children}</span>;
  return (
    <>
      {/* What is called by text that runs the other way must not turn the host around. */}
      <a
        href={href}
        target="_blank"
        rel="noopener noreferrer"
        className={className}
        style={{ unicodeBidi: 'isolate' }}
      >
        <InLink value={true}>{children}</InLink>
      </a>
      {text !== undefined && isSameAddress(text, address) ? null : (
        <span className="text-muted">
          {' ('}
          <bdi className="link-host">{host}</bdi>)
        </span>
      )}
    </>
  );
}

/** Returns `true` if a text is an address written out; the scheme may be missing. */
function isSameAddress(text: string, address: string): boolean {
  const bare = (one: string) =>
    one
      .trim()
      .replace(/^(https?:\/\/|mailto:)/, '')
      .replace(/\/$/, '');
  return bare(text) === bare(address);
}
