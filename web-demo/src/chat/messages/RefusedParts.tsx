// The parts of the chat that the provider of the model refused, at the answer that was made without them.

import { FileWarning } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { FermataChat, RefusedPart } from 'fermata-chat';
import { inOneLine } from '../text/visible';
import { DeleteMessage } from './DeleteMessage';

interface Props {
  parts: readonly RefusedPart[] | undefined;
  chat: Pick<FermataChat, 'deleteMessage'>;
}

export function RefusedParts({ parts, chat }: Props) {
  const { t } = useTranslation();
  if (parts === undefined || parts.length === 0) return null;
  return (
    <ul aria-label={t('refused.label')} className="my-3 space-y-2">
      {parts.map((part, place) => (
        <li
          key={place}
          className="flex flex-wrap items-center justify-end gap-x-3 gap-y-2 rounded-card border border-field bg-raised px-4 py-3 text-sm"
        >
          <FileWarning className="size-4 shrink-0 text-bad" aria-hidden="true" />
          <p dir="auto" className="min-w-0 flex-1 basis-64 wrap-anywhere">
            {sentenceOf(part, t)}
            {part.reason !== undefined && (
              <span className="block text-muted">
                {t('refused.reason', { reason: inOneLine(part.reason) })}
              </span>
            )}
          </p>
          {part.in !== undefined && (
            <DeleteMessage chat={chat} messageId={part.in}>
              {(open) => (
                <button type="button" className="button" onClick={open}>
                  {t('refused.delete')}
                </button>
              )}
            </DeleteMessage>
          )}
        </li>
      ))}
    </ul>
  );
}

function sentenceOf(part: RefusedPart, t: ReturnType<typeof useTranslation<'shell'>>['t']): string {
  switch (part.type) {
    case 'file':
      return t('refused.file', { name: inOneLine(part.filename ?? t('messages.file')) });
    case 'tool-result':
      return t('refused.result');
    case 'message':
      return t('refused.message');
    default:
      return part.type satisfies never;
  }
}
