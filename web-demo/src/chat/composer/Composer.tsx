// Where a message is written. It knows no chat: it says what is to be sent, and asks for a stop.

import { ArrowUp, Paperclip, Square } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, type ClipboardEvent, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { textOf, type FilePart, type Message } from '../record/message';
import { useErrorWords } from '../ui/errorWords';
import { GrowingTextarea } from '../ui/GrowingTextarea';
import { IconButton } from '../ui/IconButton';
import type { GivenBack } from 'fermata-chat';
import { isEditLast, isSend } from '../ui/keys';
import { AttachedFiles } from './AttachedFiles';
import { COMPOSER_ID } from '../ui/focusComposer';
import { useAttachments } from './useAttachments';
import { useDrop } from './useDrop';
import { useStopKey } from './useStopKey';

interface Props {
  /** The words in the field. */
  text: string;
  setText: (text: string) => void;
  /** Sends a message, unless the person is asked about it first: then this returns `false`, and the message stays. */
  onSend: (text: string, files: FilePart[]) => boolean;
  onStop: () => void;
  /** Has the person write their last message again. */
  onEditLast: () => void;
  /** `true` if a run is at work, or waits for somebody. */
  isBusy: boolean;
  /** The id of what says what a message would do now. */
  advice?: string | undefined;
  /** The message that was to be sent and was not taken. */
  givenBack?: GivenBack | undefined;
  /** The controls beside the attachments: the choice of tools. */
  children?: ReactNode;
}

export function Composer({
  text,
  setText,
  onSend,
  onStop,
  onEditLast,
  isBusy,
  advice = '',
  givenBack,
  children,
}: Props) {
  const { t } = useTranslation();
  const { files, refusals, add, restore, remove, clear } = useAttachments();
  const takeBack = useEffectEvent((message: Message) => {
    setText(withWordsBack(textOf(message), text));
    restore(message.parts.filter((part) => part.type === 'file'));
  });
  useEffect(() => {
    if (givenBack !== undefined) takeBack(givenBack.message as Message);
  }, [givenBack]);
  const isOver = useDrop(add);
  useStopKey(isBusy, onStop);
  const picker = useRef<HTMLInputElement>(null);
  const isEmpty = text.trim() === '' && files.length === 0;

  const send = () => {
    if (isEmpty) return;
    if (!onSend(text.trim(), files)) return;
    setText('');
    clear();
  };
  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };

  return (
    <form
      className="column pb-[max(0.75rem,env(safe-area-inset-bottom))]"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {givenBack !== undefined && <NotTaken error={givenBack.error} />}
      <AttachedFiles files={files} refusals={refusals} onRemove={remove} />
      <div
        className={
          'relative rounded-2xl border border-field bg-raised shadow-sm transition-colors ' +
          'focus-within:border-accent'
        }
      >
        <GrowingTextarea
          id={COMPOSER_ID}
          aria-label={t('composer.label')}
          aria-describedby={`${advice} composer-hint`.trim()}
          placeholder={t('composer.placeholder')}
          className={
            'block max-h-[40dvh] w-full resize-none bg-transparent px-4 pt-3 pb-1 outline-none ' +
            'placeholder:text-muted'
          }
          value={text}
          onChange={(event) => {
            setText(event.target.value);
          }}
          onPaste={onPaste}
          onKeyDown={(event) => {
            if (isEditLast(event) && isEmpty) {
              event.preventDefault();
              onEditLast();
            }
            if (!isSend(event)) return;
            event.preventDefault();
            send();
          }}
        />
        <div className="flex items-end gap-1 px-2 pb-2">
          <div className="flex min-w-0 flex-1 flex-wrap items-center gap-1">
            <IconButton label={t('composer.attach')} onClick={() => picker.current?.click()}>
              <Paperclip />
            </IconButton>
            <input
              ref={picker}
              type="file"
              multiple
              hidden
              aria-label={t('composer.attach')}
              onChange={(event) => {
                add(event.target.files ?? []);
                event.target.value = '';
              }}
            />
            {children}
          </div>
          {isBusy && (
            <IconButton label={t('composer.stop')} tone="outlined" onClick={onStop}>
              <Square className="fill-current" />
            </IconButton>
          )}
          {(!isBusy || !isEmpty) && (
            <IconButton label={t('composer.send')} type="submit" disabled={isEmpty} tone="primary">
              <ArrowUp />
            </IconButton>
          )}
        </div>
        {isOver && (
          <p
            className={
              'pointer-events-none absolute inset-0 flex items-center justify-center rounded-2xl border-2 ' +
              'border-dashed border-accent bg-accent-soft text-sm'
            }
          >
            {t('composer.drop')}
          </p>
        )}
      </div>
      <p id="composer-hint" className="mt-1.5 text-center text-xs text-muted pointer-coarse:sr-only">
        {t('composer.hint')}
      </p>
    </form>
  );
}

/** The words of a message that was not taken, before those that were written since. */
export const withWordsBack = (back: string, text: string): string =>
  [back, text].filter((words) => words !== '').join('\n\n');

/** Why the words are in the field again. */
export function NotTaken({ error }: { error: Error }) {
  const words = useErrorWords()(error);
  return (
    <p
      role="alert"
      dir="auto"
      className="mb-2 rounded-lg bg-bad-soft px-3 py-2 text-sm text-bad wrap-anywhere"
    >
      {words}
    </p>
  );
}
