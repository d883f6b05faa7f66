// Earlier decisions, newest first.

import { useCallback, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { ApprovalPage } from 'fermata-chat';
import { server } from '../chat/server/server';
import { Button } from '../chat/ui/Button';
import { useErrorWords } from '../chat/ui/errorWords';
import { ApprovalItem } from './ApprovalItem';
import { useListKeys } from './useListKeys';

/** The length of a page. */
const AT_ONCE = 20;

type State = { phase: 'loading' | 'ready' } | { phase: 'failed'; error: unknown };

/** Shows the calls of one tool, or of all. Each `tool` needs a `key` of its own. */
export function Decided({ me, tool }: { me: string | undefined; tool: string | undefined }) {
  const { t } = useTranslation('inbox');
  const errorWords = useErrorWords();
  const [{ approvals, next }, setLoaded] = useState<ApprovalPage>({ approvals: [] });
  const [state, setState] = useState<State>({ phase: 'loading' });
  const list = useRef<HTMLUListElement>(null);
  useListKeys(list);
  const load = useCallback(
    (before?: string) => {
      const page = server.approvals.list({
        state: 'settled',
        limit: AT_ONCE,
        ...(tool !== undefined && { tool }),
        ...(before !== undefined && { before }),
      });
      page.then(
        (page) => {
          setLoaded(({ approvals }) =>
            before === undefined ? page : { ...page, approvals: [...approvals, ...page.approvals] },
          );
          setState({ phase: 'ready' });
        },
        (error: unknown) => {
          setState({ phase: 'failed', error });
        },
      );
    },
    [tool],
  );
  useEffect(load, [load]);
  const more = () => {
    setState({ phase: 'loading' });
    load(next);
  };
  return (
    <section aria-label={t('decidedList')} className="space-y-3">
      <ul ref={list} className="space-y-3">
        {approvals.map((approval) => (
          <li key={approval.id}>
            <ApprovalItem {...{ approval, me }} />
          </li>
        ))}
      </ul>
      {state.phase === 'loading' && (
        <p role="status" className="text-sm text-muted">
          {t('loading')}
        </p>
      )}
      {state.phase === 'failed' && (
        <div role="alert" className="space-y-2 text-sm text-bad">
          <p>{t('failed', { reason: errorWords(state.error) })}</p>
          <Button onClick={more}>{t('again', { ns: 'shell' })}</Button>
        </div>
      )}
      {state.phase === 'ready' && approvals.length === 0 && <p className="text-muted">{t('noneDecided')}</p>}
      {state.phase === 'ready' && next !== undefined && <Button onClick={more}>{t('more')}</Button>}
    </section>
  );
}
