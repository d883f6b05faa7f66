// The memories of the person: found, added, changed, forgotten, exported, and memory itself turned off.

import { Download, Plus, Trash2, X } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useMemories, type MemoryKind, type UseMemories } from 'fermata-chat/react';
import { useCell } from '../../state/cell';
import { chooseMemory, isMemoryUsed } from '../server/memoryChoice';
import { server } from '../server/server';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { useErrorWords } from '../ui/errorWords';
import { IconButton } from '../ui/IconButton';
import { useAction } from '../ui/useAction';
import { DeleteAllDialog } from './DeleteAllDialog';
import { allMemories, exportMemories } from './exportMemories';
import { isListShown } from './memories';
import { KINDS, MemoryForm } from './MemoryForm';
import { MemoryRow } from './MemoryRow';

/** @param onShow is called when the chat of a memory is shown, so that a drawer can close. */
export function MemoriesDialog({ onShow }: { onShow: () => void }) {
  return useCell(isListShown) && <Shown onShow={onShow} />;
}

/** The pause in typing before memories are searched, in milliseconds. */
const TYPING = 250;

function Shown({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation('memory');
  const [words, setWords] = useState('');
  const [kind, setKind] = useState<MemoryKind>();
  const query = useSettled(words.trim(), TYPING);
  const memories = useMemories(server.memories, { query, ...(kind !== undefined && { kind }) });
  const isFiltered = query !== '' || kind !== undefined;
  const close = () => {
    isListShown.set(false);
  };
  return (
    <Dialog
      title={t('page.title')}
      size="page"
      onClose={close}
      beside={
        <IconButton label={t('page.close')} onClick={close}>
          <X />
        </IconButton>
      }
    >
      <MemorySwitch />
      <div className="mt-3 flex gap-2">
        <input
          type="search"
          dir="auto"
          aria-label={t('page.search')}
          placeholder={t('page.searchHint')}
          value={words}
          onChange={(event) => {
            setWords(event.target.value);
          }}
          className="field min-w-0 flex-1"
        />
        <select
          aria-label={t('page.kinds')}
          value={kind ?? ''}
          onChange={(event) => {
            setKind(KINDS.find((one) => one === event.target.value));
          }}
          className="field max-w-[45%]"
        >
          <option value="">{t('page.all')}</option>
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {t(`kind.${one}`)}
            </option>
          ))}
        </select>
      </div>
      <Actions memories={memories} />
      <div className="mt-2">
        <List
          memories={memories}
          isFiltered={isFiltered}
          onShow={() => {
            close();
            onShow();
          }}
        />
      </div>
    </Dialog>
  );
}

/** The text as it was when the person last paused. */
function useSettled(text: string, pause: number): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => {
      setSettled(text);
    }, pause);
    return () => {
      clearTimeout(timer);
    };
  }, [text, pause]);
  return settled;
}

function MemorySwitch() {
  const { t } = useTranslation('memory');
  const isUsed = useCell(isMemoryUsed);
  const hint = useId();
  return (
    <label className="flex cursor-pointer items-start gap-3 rounded-card bg-sunken px-3 py-2.5">
      <span className="min-w-0 flex-1">
        <span className="block text-sm">{t('page.use')}</span>
        <span id={hint} className="block text-xs text-muted">
          {t('page.useHint')}
        </span>
      </span>
      <input
        type="checkbox"
        role="switch"
        checked={isUsed}
        aria-label={t('page.use')}
        aria-describedby={hint}
        className="switch mt-1 shrink-0"
        onChange={(event) => {
          chooseMemory(event.target.checked);
        }}
      />
    </label>
  );
}

/** The actions on the list as a whole. */
function Actions({ memories }: { memories: UseMemories }) {
  const { t } = useTranslation('memory');
  const [isAdding, setAdding] = useState(false);
  const [doomed, setDoomed] = useState<number>();
  const [deleted, setDeleted] = useState<number>();
  const { act, isBusy, error } = useAction();
  const add = useRef<HTMLButtonElement>(null);
  return (
    <div className="mt-3">
      <div className="flex flex-wrap gap-2">
        <button
          ref={add}
          type="button"
          aria-expanded={isAdding}
          className="button"
          onClick={() => {
            setAdding(!isAdding);
          }}
        >
          <Plus className="size-4" aria-hidden="true" />
          {t('page.add')}
        </button>
        <button type="button" className="button" onClick={() => void act(exportMemories)}>
          <Download className="size-4" aria-hidden="true" />
          {t('page.export')}
        </button>
        <span className="flex-1" />
        <Button
          tone="danger"
          isBusy={isBusy}
          className="min-h-9"
          onClick={() =>
            void act(async () => {
              setDeleted(undefined);
              const count = (await allMemories()).length;
              if (count === 0) setDeleted(0);
              else setDoomed(count);
            })
          }
        >
          {!isBusy && <Trash2 className="size-4" aria-hidden="true" />}
          {t('page.deleteAll')}
        </Button>
      </div>
      <AnswerError error={error} />
      <p role="status" className="text-sm text-muted not-empty:mt-2">
        {deleted !== undefined && t('page.deleted', { count: deleted })}
      </p>
      {isAdding && (
        <div className="mt-2">
          <MemoryForm
            onSave={({ text, kind, slot }) => memories.add({ text, kind, ...(slot !== '' && { slot }) })}
            onDone={() => {
              setAdding(false);
              add.current?.focus();
            }}
          />
        </div>
      )}
      {doomed !== undefined && (
        <DeleteAllDialog
          count={doomed}
          onDelete={async () => {
            setDeleted(await memories.forgetAll());
          }}
          onDone={() => {
            setDoomed(undefined);
          }}
        />
      )}
    </div>
  );
}

interface ListProps {
  memories: UseMemories;
  isFiltered: boolean;
  onShow: () => void;
}

function List({ memories, isFiltered, onShow }: ListProps) {
  const { t } = useTranslation('memory');
  const { t: shell } = useTranslation();
  const words = useErrorWords();
  const { act, isBusy, error } = useAction();
  const { list } = memories;
  switch (list.status) {
    case 'loading':
      return (
        <p role="status" className="py-6 text-sm text-muted">
          {t('page.loading')}
        </p>
      );
    case 'failed':
      return (
        <div role="alert" className="rounded-card bg-bad-soft p-3 text-sm text-bad">
          <p>{t('page.failed')}</p>
          <p className="my-1 wrap-anywhere">{words(list.error)}</p>
          <button type="button" className="button" onClick={() => void memories.reload()}>
            {shell('again')}
          </button>
        </div>
      );
    case 'ready':
      return (
        <>
          {list.memories.length === 0 && (
            <p role="status" className="py-6 text-sm text-muted">
              {t(isFiltered ? 'page.noMatch' : 'page.empty')}
            </p>
          )}
          <ul aria-label={t('page.list')} className="divide-y divide-line">
            {list.memories.map((memory) => (
              <MemoryRow key={memory.id} memory={memory} memories={memories} onShow={onShow} />
            ))}
          </ul>
          <AnswerError error={error} />
          {list.hasMore && (
            <Button isBusy={isBusy} className="mt-2 w-full" onClick={() => void act(memories.loadMore)}>
              {t('page.more')}
            </Button>
          )}
        </>
      );
    default:
      return list satisfies never;
  }
}
