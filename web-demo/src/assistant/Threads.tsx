// The list of chats, from assistant-ui's threads; what waits in them is what the frame knows.

import { ThreadListItemPrimitive, ThreadListPrimitive, useAui, useAuiState } from '@assistant-ui/react';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ChatRow, rowClass } from '../chat/frame/ChatRow';
import { DeleteDialog } from '../chat/frame/DeleteDialog';
import { chats, type ListedChat } from '../chat/server/chats';
import { useCell } from '../state/cell';

export function Threads({ onShow }: { onShow: () => void }) {
  const { t } = useTranslation();
  const [doomed, setDoomed] = useState<ListedChat>();
  const isLoading = useAuiState(({ threads }) => threads.isLoading && threads.threadIds.length === 0);
  const isEmpty = useAuiState(({ threads }) => !threads.isLoading && threads.threadIds.length === 0);
  const hasMore = useAuiState(({ threads }) => threads.hasMore);
  const shown = useAuiState(({ threads }) => threads.mainThreadId);
  const aui = useAui();
  useFreshList();
  return (
    <nav aria-label={t('chats.label')}>
      <ThreadListPrimitive.Root className="flex flex-col gap-1">
        {isLoading && <p className="px-2 text-sm text-muted">{t('chats.loading')}</p>}
        {isEmpty && <p className="px-2 text-sm text-muted">{t('chats.empty')}</p>}
        <ThreadListPrimitive.Items>
          {() => <Entry onShow={onShow} onDelete={setDoomed} />}
        </ThreadListPrimitive.Items>
        {hasMore && (
          <ThreadListPrimitive.LoadMore className="button mt-2 w-full justify-center">
            {t('chats.more')}
          </ThreadListPrimitive.LoadMore>
        )}
      </ThreadListPrimitive.Root>
      {doomed && (
        <DeleteDialog
          chat={doomed}
          isShown={doomed.id === shown}
          onDone={() => {
            setDoomed(undefined);
            // The frame may not have heard of the chat, so it cannot tell that it is gone.
            void aui.threads.reload();
          }}
        />
      )}
    </nav>
  );
}

/** Loads the list again when the frame has heard of other chats. */
function useFreshList() {
  const aui = useAui();
  const { state, chats: known } = useCell(chats);
  const stamp = known.map(({ id, title }) => `${id} ${title ?? ''}`).join('\n');
  useEffect(() => {
    if (state === 'known') void aui.threads.reload();
  }, [aui, state, stamp]);
}

interface EntryProps {
  onShow: () => void;
  onDelete: (chat: ListedChat) => void;
}

function Entry({ onShow, onDelete }: EntryProps) {
  const { t } = useTranslation();
  const id = useAuiState(({ threadListItem }) => threadListItem.remoteId);
  const given = useAuiState(({ threadListItem }) => threadListItem.title);
  const isShown = useAuiState(({ threads, threadListItem }) => threads.mainThreadId === threadListItem.id);
  const chat = useCell(chats).chats.find((chat) => chat.id === id);
  if (id === undefined) return null;
  const title = given ?? chat?.title ?? t('chats.untitled');
  const listed = chat ?? { id, title, createdAt: '', updatedAt: '' };
  return (
    <ThreadListItemPrimitive.Root className={rowClass(isShown)}>
      {/* assistant-ui's trigger does nothing once a click's default is prevented, as it must be for a
          link that opens nothing. */}
      <ChatRow chat={listed} title={title} isShown={isShown} onShow={onShow} onDelete={onDelete} />
    </ThreadListItemPrimitive.Root>
  );
}
