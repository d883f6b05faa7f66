// What is allowed for always, in a chat or in all of them, and how it is taken back.

import { useCallback, useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { isNewChat } from '../server/chatId';
import { onServerEvent, server, unknownChats } from '../server/server';
import { useErrorWords } from '../ui/errorWords';
import { formatWhen } from '../ui/When';
import { Name } from '../values/ToolValue';
import { scopeWords } from './asked';

/** Calls that are not asked about any more, as `GET /api/chat/{id}/grants` has them. */
interface Grant {
  tool: string;
  /** The id of the scope. */
  scope: string;
  label: string;
  covers: string;
  for: 'chat' | 'owner';
  since: string;
  until?: string;
}

export function Grants({ chatId }: { chatId: string }) {
  const { t, i18n } = useTranslation();
  const words = useErrorWords();
  const { t: cards } = useTranslation('cards');
  const isKnown = !useCell(unknownChats).has(chatId) && !isNewChat(chatId);
  const [grants, setGrants] = useState<readonly Grant[]>([]);
  const [error, setError] = useState<unknown>();
  const path = `/api/chat/${encodeURIComponent(chatId)}/grants`;
  const attempt = useCallback(
    async (action: () => Promise<unknown>) => {
      try {
        await action();
        setGrants((await server.request<{ grants: Grant[] }>(path)).grants);
        setError(undefined);
      } catch (reason) {
        setError(reason);
      }
    },
    [path],
  );
  useEffect(() => {
    if (!isKnown) return undefined;
    const load = () => void attempt(() => Promise.resolve());
    load();
    return onServerEvent(load);
  }, [isKnown, attempt]);
  if (!isKnown || (grants.length === 0 && error === undefined)) return null;
  return (
    <section aria-label={t('grants.label')} className="mt-2 border-t border-line pt-2">
      <h2 className="px-2 text-xs text-muted">{t('grants.label')}</h2>
      <ul>
        {grants.map(({ tool, scope, label, covers, for: granted, since, until }) => (
          <li key={`${tool} ${scope} ${granted}`} className="flex items-center gap-2 px-2 py-1">
            <span className="min-w-0 flex-1">
              <span className="block text-[0.8125rem] wrap-anywhere">
                <Name text={scopeWords({ id: scope, label, covers }, tool, cards)} />
              </span>
              <span className="block text-xs text-muted">
                {t(granted === 'owner' ? 'grants.ofOwner' : 'grants.since', {
                  time: formatWhen(since, i18n.language),
                })}
                {until !== undefined && ` · ${t('grants.until', { time: formatWhen(until, i18n.language) })}`}
              </span>
            </span>
            <button
              type="button"
              className="button shrink-0"
              aria-label={t('grants.endLabel', { tool })}
              onClick={() =>
                void attempt(() =>
                  server.request(
                    `${path}/${encodeURIComponent(tool)}?scope=${encodeURIComponent(scope)}&for=${granted}`,
                    { method: 'DELETE' },
                  ),
                )
              }
            >
              {t('grants.end')}
            </button>
          </li>
        ))}
      </ul>
      {error !== undefined && (
        <p role="alert" className="px-2 py-1 text-bad">
          {words(error)}
        </p>
      )}
    </section>
  );
}
