// Exports a chat: as Markdown to read, or as the JSON of its record, which has everything.

import { Download } from 'lucide-react';
import { useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { markdownOf } from '../record/markdownOf';
import type { Message } from '../record/message';
import { server } from '../server/server';
import { AnswerError } from '../ui/AnswerError';
import { IconButton } from '../ui/IconButton';
import { save } from '../ui/save';
import { useAction } from '../ui/useAction';
import { useMenuKeys } from '../ui/useMenuKeys';

const FORMS = ['markdown', 'json'] as const;

/** The characters that a file's name may not have somewhere. */
const FORBIDDEN = /[\\/:*?"<>|\p{C}]+/gu;
const nameOf = (title: string) => title.replace(FORBIDDEN, ' ').trim().slice(0, 60).trim() || 'chat';

export function ExportMenu({ chatId, title }: { chatId: string; title: string }) {
  const { t } = useTranslation();
  const { t: cards } = useTranslation('cards');
  const [isOpen, setOpen] = useState(false);
  const panel = useRef<HTMLDivElement>(null);
  const { act, isBusy, error } = useAction();
  useMenuKeys(panel, isOpen, () => {
    setOpen(false);
  });
  const saveAs = async (form: (typeof FORMS)[number]) => {
    const isSaved = await act(async () => {
      const record = await server.request<{ messages: Message[] }>(`/api/chat/${encodeURIComponent(chatId)}`);
      const name = nameOf(title);
      if (form === 'json') {
        save(`${name}.json`, 'application/json', JSON.stringify({ title, ...record }, undefined, 2));
        return;
      }
      const headings = {
        title,
        user: t('messages.you'),
        assistant: t('messages.assistant'),
        call: (tool: string) => cards('card.label', { name: tool }),
      };
      save(`${name}.md`, 'text/markdown', markdownOf(record.messages, headings));
    });
    if (isSaved) setOpen(false);
  };
  return (
    <div className="relative" ref={panel}>
      <IconButton
        label={t('export.label')}
        aria-expanded={isOpen}
        onClick={() => {
          setOpen(!isOpen);
        }}
      >
        <Download />
      </IconButton>
      {isOpen && (
        <div
          role="group"
          aria-label={t('export.label')}
          className="absolute top-full right-0 z-20 mt-1 w-64 rounded-card border border-field bg-raised p-2 text-sm shadow-lg"
        >
          {FORMS.map((form) => (
            <button
              key={form}
              data-choice
              type="button"
              aria-disabled={isBusy}
              className="block w-full cursor-pointer rounded-lg px-3 py-1.5 text-left hover:bg-sunken pointer-coarse:min-h-11"
              onClick={() => void saveAs(form)}
            >
              {t(`export.${form}`)}
              <span className="block text-xs text-muted">{t(`export.${form}Hint`)}</span>
            </button>
          ))}
          <AnswerError error={error} />
        </div>
      )}
    </div>
  );
}
