// How the connection is: a word at the top, and a banner where it matters.

import { CloudOff, RefreshCw } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { usePicked } from '../../state/cell';
import { connections } from '../server/server';

const onNetwork = (tell: () => void) => {
  addEventListener('online', tell);
  addEventListener('offline', tell);
  return () => {
    removeEventListener('online', tell);
    removeEventListener('offline', tell);
  };
};

export type Shown = 'open' | 'closed' | 'reconnecting' | 'offline';

/** The state of a chat's connection, with the browser's own knowledge of the network. */
export function useConnection(chatId: string): Shown {
  const connection = usePicked(connections, (all) => all[chatId] ?? 'closed');
  const isOnline = useSyncExternalStore(onNetwork, () => navigator.onLine);
  return isOnline ? connection : 'offline';
}

export function ConnectionBanner({ chatId }: { chatId: string }) {
  const { t } = useTranslation();
  const connection = useConnection(chatId);
  const isBroken = connection === 'reconnecting' || connection === 'offline';
  return (
    <div role="status">
      {isBroken && (
        <p className="flex items-center justify-center gap-2 bg-wait-soft px-4 py-2 text-sm text-wait">
          {connection === 'offline' ? (
            <CloudOff className="size-4 shrink-0" aria-hidden="true" />
          ) : (
            <RefreshCw className="size-4 shrink-0 motion-safe:animate-spin" aria-hidden="true" />
          )}
          {t(`connection.${connection}`)}
        </p>
      )}
    </div>
  );
}

const COLOURS = {
  open: 'bg-good',
  closed: 'bg-line',
  reconnecting: 'bg-wait',
  offline: 'bg-bad',
} satisfies Record<Shown, string>;

/** The state of the connection, in a word. */
export function ConnectionWord({ chatId }: { chatId: string }) {
  const { t } = useTranslation();
  const connection = useConnection(chatId);
  return (
    <span className="inline-flex shrink-0 items-center gap-1.5" data-connection={connection}>
      <span className={`size-2 rounded-full ${COLOURS[connection]}`} aria-hidden="true" />
      {t(`connection.word.${connection}`)}
    </span>
  );
}
