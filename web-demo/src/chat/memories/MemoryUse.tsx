// The memories of a message's run: those that the model received, above the answer, and those that were saved,
// changed and forgotten, below it.

import { Brain, ChevronDown } from 'lucide-react';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { memoryOf, type MentionedMemory } from 'fermata-chat';
import { useCell } from '../../state/cell';
import type { Message } from '../record/message';
import { server } from '../server/server';
import { inOneLine } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { useAnswer } from '../ui/useAnswer';
import { DEEDS, isListShown, noteUndone, undone, type Deed } from './memories';

/** The memories that the model received, folded away. */
export function UsedMemories({ message }: { message: Message }) {
  const { t } = useTranslation('memory');
  const [isOpen, setOpen] = useState(false);
  const list = useId();
  const recalled = memoryOf(message)?.recalled ?? [];
  if (recalled.length === 0) return null;
  return (
    <div className="mb-3">
      <button
        type="button"
        aria-expanded={isOpen}
        aria-controls={list}
        className={
          'inline-flex min-h-7 cursor-pointer items-center gap-1.5 rounded-full bg-sunken px-2.5 text-xs ' +
          'text-muted transition-colors hover:text-ink pointer-coarse:min-h-11'
        }
        onClick={() => {
          setOpen(!isOpen);
        }}
      >
        <Brain className="size-3.5" aria-hidden="true" />
        {t('used', { count: recalled.length })}
        <ChevronDown
          className={`size-3.5 motion-safe:transition-transform ${isOpen ? 'rotate-180' : ''}`}
          aria-hidden="true"
        />
      </button>
      <div id={list} hidden={!isOpen} className="mt-2 rounded-card border border-field bg-raised px-4 py-3">
        <ul aria-label={t('usedLabel')} className="space-y-1.5 text-sm">
          {recalled.map(({ id, kind, text }) => (
            <li key={id} className="flex flex-wrap items-baseline gap-x-2 wrap-anywhere">
              {inOneLine(text)}
              <span className="text-xs text-muted">{t(`kind.${kind}`)}</span>
            </li>
          ))}
        </ul>
        <button
          type="button"
          className={
            'mt-2 cursor-pointer text-xs text-muted underline underline-offset-4 hover:text-ink ' +
            'pointer-coarse:min-h-11'
          }
          onClick={() => {
            isListShown.set(true);
          }}
        >
          {t('manage')}
        </button>
      </div>
    </div>
  );
}

/** The memories that were saved, changed and forgotten, each with a way to undo it. */
export function MemoryChanges({ message }: { message: Message }) {
  const { t } = useTranslation('memory');
  const use = memoryOf(message);
  if (use === undefined || DEEDS.every((deed) => use[deed].length === 0)) return null;
  return (
    <ul aria-label={t('changes')} className="my-3 space-y-1 text-sm pointer-coarse:space-y-4">
      {DEEDS.flatMap((deed) =>
        use[deed].map((memory) => (
          <Change key={`${deed} ${memory.id}`} messageId={message.id} deed={deed} memory={memory} />
        )),
      )}
    </ul>
  );
}

function Change({ messageId, deed, memory }: { messageId: string; deed: Deed; memory: MentionedMemory }) {
  const { t } = useTranslation('memory');
  const { give, isBusy, error } = useAnswer();
  const key = `${messageId} ${deed} ${memory.id}`;
  const isUndone = useCell(undone).includes(key);
  const text = inOneLine(memory.text);
  const isOff = isBusy || isUndone;
  const undo = () =>
    give('undo', async () => {
      await server.memories.undo(memory.id);
      noteUndone(key);
    });
  return (
    <li>
      <p className="flex items-start gap-2 text-muted">
        <Brain className="mt-1 size-3.5 shrink-0" aria-hidden="true" />
        <span className="min-w-0 wrap-anywhere">
          {t(deed)} <span className={isUndone ? 'line-through' : 'text-ink'}>{text}</span>
          <span aria-hidden="true"> · </span>
          <button
            type="button"
            // `disabled` would drop the focus.
            aria-disabled={isOff || undefined}
            aria-busy={isBusy || undefined}
            aria-label={isUndone ? undefined : t('undoLabel', { what: `${t(deed)} ${text}` })}
            className={
              'relative cursor-pointer rounded-sm underline underline-offset-4 hover:text-ink ' +
              'aria-disabled:cursor-default aria-disabled:no-underline ' +
              // As large as a finger, in a line that is not.
              'pointer-coarse:after:absolute pointer-coarse:after:-inset-2.5'
            }
            onClick={() => {
              if (!isOff) void undo();
            }}
          >
            {t(isUndone ? 'undone' : 'undo')}
          </button>
        </span>
      </p>
      <AnswerError error={isUndone ? undefined : error} />
    </li>
  );
}
