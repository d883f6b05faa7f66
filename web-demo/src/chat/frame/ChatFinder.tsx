// Finds a chat by its title, or begins a new one, by keyboard. The words are looked for in the chats that are loaded; older ones are
// loaded when they are asked for.

import { useId, useState, type KeyboardEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { showChat, showNewChat } from '../server/chatId';
import { chats, loadOlderChats } from '../server/chats';
import { AnswerError } from '../ui/AnswerError';
import { Dialog } from '../ui/Dialog';
import { FIELD } from '../ui/field';
import { isComposing } from '../ui/keys';
import { useAction } from '../ui/useAction';
import { When } from '../ui/When';

interface Option {
  key: string;
  words: string;
  time?: string;
  choose: () => void;
}

const isFound = (title: string, words: string) =>
  words
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => title.toLocaleLowerCase().includes(word));

export function ChatFinder({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const list = useCell(chats);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const { act, isBusy, error } = useAction();
  const id = useId();
  const show = (chatId: string | undefined) => {
    onClose();
    if (chatId === undefined) showNewChat();
    else showChat(chatId);
  };
  const found = list.chats.map((chat) => ({ ...chat, title: chat.title ?? t('chats.untitled') }));
  const options: Option[] = [
    ...found
      .filter(({ title }) => isFound(title, words))
      .map((chat) => ({
        key: chat.id,
        words: chat.title,
        time: chat.updatedAt,
        choose: () => {
          show(chat.id);
        },
      })),
    {
      key: 'new',
      words: t('chats.new'),
      choose: () => {
        show(undefined);
      },
    },
  ];
  // A new chat is the first choice until something is looked for.
  if (words.trim() === '') options.unshift(...options.splice(-1));
  if (list.next !== undefined)
    options.push({ key: 'older', words: t('chats.more'), choose: () => void act(loadOlderChats) });
  const active = Math.min(at, options.length - 1);
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    if (step !== undefined) setAt((active + step + options.length) % options.length);
    else if (event.key === 'Enter') options[active]?.choose();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t('finder.title')} onClose={onClose}>
      <input
        type="search"
        dir="auto"
        role="combobox"
        aria-label={t('finder.label')}
        aria-expanded
        aria-controls={id}
        aria-activedescendant={`${id}-${active}`}
        autoComplete="off"
        placeholder={t('finder.hint')}
        value={words}
        onChange={(event) => {
          setWords(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
        className={FIELD}
      />
      <div
        id={id}
        role="listbox"
        aria-label={t('chats.label')}
        className="mt-3 max-h-[50dvh] overflow-y-auto"
      >
        {options.map(({ key, words, time, choose }, place) => (
          // The keys are those of the field, which keeps the focus.
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events
          <div
            key={key}
            id={`${id}-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === active}
            aria-disabled={isBusy || undefined}
            ref={(element) => {
              if (place === active) element?.scrollIntoView({ block: 'nearest' });
            }}
            className="flex cursor-pointer items-center gap-3 rounded-lg px-3 py-2 text-sm aria-selected:bg-accent-soft pointer-coarse:min-h-11"
            onClick={choose}
          >
            <span dir="auto" className="min-w-0 flex-1 truncate text-left">
              {words}
            </span>
            {time !== undefined && time !== '' && (
              <span className="text-xs text-muted">
                <When time={time} />
              </span>
            )}
          </div>
        ))}
      </div>
      <AnswerError error={error} />
    </Dialog>
  );
}
