// Files and sources of a message.

import { FileText, Link2 } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { FilePart, SourcePart } from '../record/message';
import { hostOf, isOwnPicture, safeAddress } from '../text/address';
import { ExternalLink } from '../text/Links';
import { PictureLink } from '../text/PictureLink';

export const Files = ({ parts }: { parts: readonly FilePart[] }) => (
  <ul className="my-2 flex flex-wrap gap-2">
    {parts.map((part, place) => (
      <li key={place}>
        <File part={part} />
      </li>
    ))}
  </ul>
);

function File({ part }: { part: FilePart }) {
  const { t } = useTranslation();
  const name = part.filename ?? t(part.mediaType.startsWith('image/') ? 'messages.image' : 'messages.file');
  const isPicture = part.mediaType.startsWith('image/');
  if (isPicture && isOwnPicture(part.url))
    return (
      <img
        src={part.url}
        alt={name}
        loading="lazy"
        className="max-h-72 max-w-full rounded-card border border-line"
      />
    );
  if (hostOf(part.url) !== undefined) {
    return (
      <span className="inline-block rounded-card border border-line bg-raised px-3 py-2 text-sm wrap-anywhere">
        {isPicture ? (
          <PictureLink address={part.url} name={name} />
        ) : (
          <ExternalLink address={part.url}>{name}</ExternalLink>
        )}
      </span>
    );
  }
  return (
    <a
      href={safeAddress(part.url)}
      download={name}
      className={
        'inline-flex items-center gap-2 rounded-card border border-field bg-raised px-3 py-2 text-sm ' +
        'hover:border-accent pointer-coarse:min-h-11'
      }
    >
      <FileText className="size-4 text-muted" aria-hidden="true" />
      <span className="max-w-60 truncate">{name}</span>
    </a>
  );
}

export function Sources({ parts }: { parts: readonly SourcePart[] }) {
  const { t } = useTranslation();
  return (
    <section aria-label={t('messages.sources')} className="my-3 text-sm">
      <h2 className="mb-1 text-muted">{t('messages.sources')}</h2>
      <ul className="flex flex-wrap gap-x-4 gap-y-1">
        {parts.map((part) => (
          <li key={part.sourceId} className="inline-flex max-w-full items-center gap-1.5">
            {part.type === 'source-url' ? (
              <>
                <Link2 className="size-3.5 shrink-0 text-muted" aria-hidden="true" />
                <ExternalLink
                  address={part.url}
                  text={part.title ?? part.url}
                  className="truncate text-accent underline underline-offset-2"
                >
                  {part.title ?? part.url}
                </ExternalLink>
              </>
            ) : (
              <>
                <FileText className="size-3.5 shrink-0 text-muted" aria-hidden="true" />
                <span className="truncate">{part.title}</span>
              </>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
