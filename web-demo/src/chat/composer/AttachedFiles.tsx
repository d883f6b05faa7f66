// What is attached to the message that is being written, and what could not be.

import { FileText, X } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { FilePart } from '../record/message';
import { IconButton } from '../ui/IconButton';
import { LARGEST } from './attachments';
import type { Refused } from './useAttachments';

interface Props {
  files: readonly FilePart[];
  refusals: readonly Refused[];
  onRemove: (file: FilePart) => void;
}

export function AttachedFiles({ files, refusals, onRemove }: Props) {
  const { t } = useTranslation();
  return (
    <>
      {refusals.map(({ name, refusal }) => (
        <p key={name} role="alert" className="mb-2 text-sm text-bad">
          {refusal === 'refusedType'
            ? t('composer.refusedType', { name })
            : t('composer.refusedSize', { name, size: String(LARGEST / 1_000_000) })}
        </p>
      ))}
      {files.length > 0 && (
        <ul aria-label={t('composer.attached')} className="mb-2 flex flex-wrap gap-2">
          {files.map((file, place) => (
            <li
              key={place}
              className="flex items-center gap-2 rounded-card border border-field bg-raised py-1 pr-1 pl-2 text-sm"
            >
              {file.mediaType.startsWith('image/') ? (
                <img src={file.url} alt="" className="size-8 rounded object-cover" />
              ) : (
                <FileText className="size-4 text-muted" aria-hidden="true" />
              )}
              <span className="max-w-40 truncate">{file.filename}</span>
              <IconButton
                label={t('composer.remove', { name: file.filename ?? '' })}
                onClick={() => {
                  onRemove(file);
                }}
              >
                <X />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
