// One memory in the list: what it says and where it comes from, and what can be done with it.

import { Pencil, Pin, Trash2 } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { ListedMemory, UseMemories } from 'fermata-chat/react';
import { useCell } from '../../state/cell';
import { chatUrl, showChat } from '../server/chatId';
import { chats } from '../server/chats';
import { inOneLine } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { IconButton } from '../ui/IconButton';
import { isPlainClick } from '../ui/keys';
import { useAction } from '../ui/useAction';
import { When } from '../ui/When';
import { MemoryForm } from './MemoryForm';

interface Props {
  memory: ListedMemory;
  memories: UseMemories;
  /** Called when the chat of a memory is shown. */
  onShow: () => void;
}

export function MemoryRow({ memory, memories, onShow }: Props) {
  const { t } = useTranslation('memory');
  const [isEdited, setEdited] = useState(false);
  const { act, isBusy, error } = useAction();
  const { row, focusNext } = useFocusIn();
  const { id, pinned, isForgotten } = memory;
  const text = inOneLine(memory.text);
  if (isEdited)
    return (
      <li ref={row} className="py-2.5">
        <MemoryForm
          memory={memory}
          onSave={({ text, kind, slot }) =>
            memories.change(id, { text, kind, slot: slot === '' ? null : slot })
          }
          onDone={() => {
            setEdited(false);
            focusNext('edit');
          }}
        />
      </li>
    );
  if (isForgotten)
    return (
      <li ref={row} className="py-2.5">
        <p className="flex items-baseline gap-3 text-sm text-muted">
          <span className="min-w-0 flex-1 wrap-anywhere">
            {t('row.forgotten')} <s>{text}</s>
          </span>
          <button
            type="button"
            data-action="undo"
            aria-label={t('undoLabel', { what: `${t('row.forgotten')} ${text}` })}
            aria-disabled={isBusy || undefined}
            className="button shrink-0"
            onClick={() => {
              focusNext('delete');
              void act(() => memories.undo(id));
            }}
          >
            {t('undo')}
          </button>
        </p>
        <AnswerError error={error} />
      </li>
    );
  return (
    <li ref={row} className="py-2.5" data-memory={id}>
      <div className="flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <p dir="auto" className="text-sm wrap-anywhere">
            {text}
          </p>
          <Facts memory={memory} onShow={onShow} />
        </div>
        <div className="flex shrink-0">
          <IconButton
            label={t('row.pin', { text })}
            aria-pressed={pinned}
            className="aria-pressed:[&_svg]:fill-current"
            onClick={() => void act(() => memories.change(id, { pinned: !pinned }))}
          >
            <Pin />
          </IconButton>
          <IconButton
            label={t('row.edit', { text })}
            data-action="edit"
            onClick={() => {
              setEdited(true);
            }}
          >
            <Pencil />
          </IconButton>
          <IconButton
            label={t('row.delete', { text })}
            data-action="delete"
            onClick={() => {
              focusNext('undo');
              void act(() => memories.forget(id));
            }}
          >
            <Trash2 />
          </IconButton>
        </div>
      </div>
      <AnswerError error={error} />
    </li>
  );
}

/** The kind, the slot, when and where it was said, and who wrote it after reading what. */
function Facts({ memory, onShow }: Pick<Props, 'memory' | 'onShow'>) {
  const { t } = useTranslation('memory');
  const { kind, slot, pinned, chatId, createdAt, origin } = memory;
  const title = useCell(chats).chats.find(({ id }) => id === chatId)?.title ?? undefined;
  return (
    <p className="flex flex-wrap gap-x-2 text-xs leading-5 text-muted">
      <span>{t(`kind.${kind}`)}</span>
      {slot !== undefined && <span className="wrap-anywhere">{t('row.slot', { slot })}</span>}
      {pinned && <span title={t('row.pinHint')}>{t('row.pinned')}</span>}
      <When time={createdAt} />
      {chatId !== undefined && (
        <a
          href={chatUrl(chatId)}
          className="max-w-full truncate underline underline-offset-4 hover:text-ink"
          onClick={(event) => {
            if (!isPlainClick(event)) return;
            event.preventDefault();
            showChat(chatId);
            onShow();
          }}
        >
          {title === undefined ? t('row.fromChat') : t('row.fromTitle', { title: inOneLine(title) })}
        </a>
      )}
      {origin !== undefined && <span>{t(`origin.${origin.by}`)}</span>}
      {origin?.by === 'tool' && origin.read !== undefined && (
        <span className="wrap-anywhere">
          {t('row.afterReading', { sources: origin.read.map(inOneLine).join(', ') })}
        </span>
      )}
    </p>
  );
}

/**
 * Has the focus follow an action: the button that was pressed goes away, and the one that is named gets the focus once
 * it is there, unless the person has moved on.
 */
function useFocusIn() {
  const row = useRef<HTMLLIElement>(null);
  const wanted = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (wanted.current === undefined || document.activeElement !== document.body) return;
    const button = row.current?.querySelector<HTMLElement>(`[data-action="${wanted.current}"]`);
    if (!button) return;
    wanted.current = undefined;
    button.focus();
  });
  const focusNext = (action: string) => {
    wanted.current = action;
  };
  return { row, focusNext };
}
