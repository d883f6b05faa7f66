// The calls that wait for the person: the list, the selection of several, and a notice if the list may be incomplete.

import { useEffect, useRef, useState, type RefObject } from 'react';
import { useTranslation } from 'react-i18next';
import type { Approval, UseInbox } from 'fermata-chat/react';
import { inOneLine } from '../chat/text/visible';
import { Button } from '../chat/ui/Button';
import { useErrorWords } from '../chat/ui/errorWords';
import { AnswerAll } from './AnswerAll';
import { ApprovalItem } from './ApprovalItem';
import { useListKeys } from './useListKeys';

interface Props {
  inbox: UseInbox;
  /** The approvals of the inbox that wait for the person. */
  waiting: readonly Approval[];
  me: string | undefined;
  /** The tool whose calls are shown; all, if there is none. */
  tool: string | undefined;
  /** The approval of the link that led here. */
  linked: string | null;
}

const LINKED = 'outline-2 outline-offset-2 outline-accent';

export function Waiting({ inbox, waiting, me, tool, linked }: Props) {
  const { t } = useTranslation('inbox');
  const list = useRef<HTMLUListElement>(null);
  useListKeys(list);
  useFocusOnCard(list, linked);
  const isOfTool = (approval: Approval) => tool === undefined || approval.tool === tool;
  const shown = inbox.approvals.filter(isOfTool);
  const open = waiting.filter(isOfTool);
  const { selection, toggle, selectAll, clear } = useSelection(open);
  const [asked, setAsked] = useState<{ approved: boolean; approvals: readonly Approval[] }>();
  return (
    <section aria-label={t('list')} className="space-y-3">
      <Banner inbox={inbox} />
      {linked !== null && inbox.gone.has(linked) && !inbox.approvals.some(({ id }) => id === linked) && (
        <p role="alert" className="rounded-lg bg-sunken px-3 py-2 text-sm">
          {t('linkGone')}
        </p>
      )}
      {open.length > 1 && (
        <label className="flex min-h-10 w-fit items-center gap-2.5 text-sm pointer-coarse:min-h-11">
          <input
            type="checkbox"
            className="size-4 accent-accent pointer-coarse:size-6"
            checked={selection.length === open.length}
            onChange={(event) => {
              if (event.target.checked) selectAll();
              else clear();
            }}
          />
          {t('selectAll')}
        </label>
      )}
      <ul ref={list} className="space-y-3">
        {shown.map((approval) => (
          <li key={approval.id} className="flex items-start gap-2.5">
            {open.length > 1 && !open.includes(approval) && (
              <span className="w-4 shrink-0 pointer-coarse:w-6" />
            )}
            {open.length > 1 && open.includes(approval) && (
              // A finger needs more room than the box has.
              <label className="mt-5 shrink-0 pointer-coarse:-m-2.5 pointer-coarse:mt-1.5 pointer-coarse:p-2.5">
                <input
                  type="checkbox"
                  aria-label={t('select', {
                    tool: inOneLine(approval.tool),
                    who: inOneLine(approval.requestedBy),
                  })}
                  className="block size-4 accent-accent pointer-coarse:size-6"
                  checked={selection.includes(approval)}
                  onChange={() => {
                    toggle(approval.id);
                  }}
                />
              </label>
            )}
            <div className={`min-w-0 flex-1 rounded-card ${approval.id === linked ? LINKED : ''}`}>
              <ApprovalItem
                {...{ approval, me }}
                waitsForMe={open.includes(approval)}
                isGone={inbox.gone.has(approval.id)}
                onVote={inbox.vote}
              />
            </div>
          </li>
        ))}
      </ul>
      {open.length < shown.length && (
        <Button
          tone="quiet"
          onClick={() => {
            inbox.tidy(me);
          }}
        >
          {t('tidy')}
        </Button>
      )}
      {open.length === 0 && inbox.status === 'live' && <Empty tool={tool} others={waiting.length} />}
      {selection.length > 0 && (
        <Selected
          count={selection.length}
          onAnswer={(approved) => {
            setAsked({ approved, approvals: selection });
          }}
        />
      )}
      {asked !== undefined && (
        <AnswerAll
          {...{ inbox, waiting, me, ...asked }}
          onClose={() => {
            setAsked(undefined);
            clear();
          }}
        />
      )}
    </section>
  );
}

/** Puts the focus on the card of an approval when it appears. */
function useFocusOnCard(list: RefObject<HTMLElement | null>, id: string | null) {
  const isDone = useRef(id === null);
  useEffect(() => {
    if (isDone.current) return;
    const cards = [...(list.current?.querySelectorAll<HTMLElement>('[data-call]') ?? [])];
    const card = cards.find(({ dataset }) => dataset['call'] === id);
    if (card === undefined) return;
    isDone.current = true;
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: 'start' });
  });
}

/** The selection of approvals that wait. It loses an approval that stops waiting. */
function useSelection(open: readonly Approval[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  return {
    selection: open.filter(({ id }) => ids.has(id)),
    toggle: (id: string) => {
      setIds((known) =>
        known.has(id) ? new Set([...known].filter((one) => one !== id)) : new Set([...known, id]),
      );
    },
    selectAll: () => {
      setIds(new Set(open.map(({ id }) => id)));
    },
    clear: () => {
      setIds(new Set());
    },
  };
}

/** A notice that the list may be incomplete, with the reason. */
function Banner({ inbox: { status, error, reload } }: Pick<Props, 'inbox'>) {
  const { t } = useTranslation('inbox');
  const errorWords = useErrorWords();
  switch (status) {
    case 'live':
      return null;
    case 'loading':
      return (
        <p role="status" className="text-sm text-muted">
          {t('loading')}
        </p>
      );
    case 'outdated':
      return (
        <p role="status" className="rounded-lg bg-wait-soft px-3 py-2 text-sm text-wait">
          {t('outdated')}
        </p>
      );
    case 'failed':
      return (
        <div role="alert" className="space-y-2 rounded-lg bg-bad-soft px-3 py-2 text-sm text-bad">
          <p>{t('failed', { reason: errorWords(error) })}</p>
          <Button onClick={reload}>{t('again', { ns: 'shell' })}</Button>
        </div>
      );
    default:
      return status satisfies never;
  }
}

/** A notice that no call waits, or no call of this tool. */
function Empty({ tool, others }: { tool: string | undefined; others: number }) {
  const { t } = useTranslation('inbox');
  if (others > 0 && tool !== undefined)
    return (
      <p className="py-8 text-center text-muted">
        {t('noneOfTool', { tool: inOneLine(tool) })} {t('others', { count: others })}
      </p>
    );
  return (
    <div className="py-16 text-center">
      <p className="font-serif text-2xl">{t('done')}</p>
      <p className="mt-1 text-muted">{t('doneText')}</p>
    </div>
  );
}

/** The actions for the selected approvals, at the foot of the window. */
function Selected({ count, onAnswer }: { count: number; onAnswer: (approved: boolean) => void }) {
  const { t } = useTranslation('inbox');
  const words = t('selected', { count });
  return (
    <div
      role="group"
      aria-label={words}
      className="sticky bottom-3 z-10 flex flex-wrap items-center gap-2 rounded-card border border-field bg-raised p-2 pl-4 shadow-lg"
    >
      <p role="status" className="mr-auto text-sm font-medium">
        {words}
      </p>
      <Button
        tone="primary"
        onClick={() => {
          onAnswer(true);
        }}
      >
        {t('approveSelected')}
      </Button>
      <Button
        tone="danger"
        onClick={() => {
          onAnswer(false);
        }}
      >
        {t('denySelected')}
      </Button>
    </div>
  );
}
