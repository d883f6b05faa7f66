// The owner's chats: which is shown, what waits in them, where a run is open.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { chats, loadChats, loadOlderChats, type ListedChat } from '../server/chats';
import { useErrorWords } from '../ui/errorWords';
import { ChatRow, rowClass } from './ChatRow';
import { DeleteDialog } from './DeleteDialog';

interface Props {
  chatId: string;
  /** Called when a chat was chosen, so that a drawer can close. */
  onShow: () => void;
}

export function ChatList({ chatId, onShow }: Props) {
  const { t } = useTranslation();
  const list = useCell(chats);
  const words = useErrorWords();
  const [doomed, setDoomed] = useState<ListedChat>();
  return (
    <nav aria-label={t('chats.label')} className="flex flex-col gap-1">
      {list.state === 'loading' && <p className="px-2 text-sm text-muted">{t('chats.loading')}</p>}
      {list.state === 'known' && list.chats.length === 0 && (
        <p className="px-2 text-sm text-muted">{t('chats.empty')}</p>
      )}
      {list.state === 'failed' && (
        <div role="alert" className="rounded-card bg-bad-soft p-3 text-sm text-bad">
          <p>{t('chats.failed')}</p>
          <p className="my-1 wrap-anywhere">{words(list.error)}</p>
          <button type="button" className="button" onClick={() => void loadChats()}>
            {t('again')}
          </button>
        </div>
      )}
      <ul>
        {list.chats.map((chat) => (
          <Entry
            key={chat.id}
            chat={chat}
            isShown={chat.id === chatId}
            onShow={onShow}
            onDelete={setDoomed}
          />
        ))}
      </ul>
      {list.next !== undefined && <Older />}
      {doomed && (
        <DeleteDialog
          chat={doomed}
          isShown={doomed.id === chatId}
          onDone={() => {
            setDoomed(undefined);
          }}
        />
      )}
    </nav>
  );
}

interface EntryProps {
  chat: ListedChat;
  isShown: boolean;
  onShow: () => void;
  onDelete: (chat: ListedChat) => void;
}

function Entry({ chat, isShown, onShow, onDelete }: EntryProps) {
  const { t } = useTranslation();
  return (
    <li className={rowClass(isShown)}>
      <ChatRow
        chat={chat}
        title={chat.title ?? t('chats.untitled')}
        isShown={isShown}
        onShow={onShow}
        onDelete={onDelete}
      />
    </li>
  );
}

function Older() {
  const { t } = useTranslation();
  const [hasFailed, setFailed] = useState(false);
  const load = () => {
    setFailed(false);
    loadOlderChats().catch(() => {
      setFailed(true);
    });
  };
  return (
    <div className="mt-2 text-sm">
      {hasFailed && (
        <p role="alert" className="mb-1 px-2 text-bad">
          {t('chats.failed')}
        </p>
      )}
      <button type="button" className="button w-full justify-center" onClick={load}>
        {t(hasFailed ? 'again' : 'chats.more')}
      </button>
    </div>
  );
}
