// What both pages have around the messages: the title of the chat and who answers in it, the chats, what waits elsewhere, the
// settings. The chat list stands at the side, and is a drawer where there is no room for it.

import { Menu, SquarePen, X } from 'lucide-react';
import { useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import type { FermataChat } from 'fermata-chat';
import { useCell, usePicked } from '../../state/cell';
import { COMPOSER_ID } from '../ui/focusComposer';
import { AssistantPicker } from '../context/AssistantPicker';
import { MemoriesDialog } from '../memories/MemoriesDialog';
import { ownWaiting } from '../runs/notifications';
import { isNewChat, showNewChat } from '../server/chatId';
import { chats, followChats, waiting } from '../server/chats';
import { connections, unknownChats } from '../server/server';
import { IconButton } from '../ui/IconButton';
import { Sign } from '../ui/Sign';
import { ChatList } from './ChatList';
import { ConnectionBanner, ConnectionWord } from './ConnectionState';
import { ExportMenu } from './ExportMenu';
import { InboxLink } from './InboxLink';
import { NewChatButton } from './NewChatButton';
import { PendingElsewhere } from './PendingElsewhere';
import { Settings, type PageName } from './Settings';
import { FinderButton, Shortcuts } from './Shortcuts';
import { TokenDialog } from './TokenDialog';

interface Props {
  page: PageName;
  chatId: string;
  /** The chat, once it is there. */
  chat: Pick<FermataChat, 'chosen'> | undefined;
  /** The list of chats, where it is not the usual one; `onShow` says that a chat was chosen. */
  list?: ((onShow: () => void) => ReactNode) | undefined;
  children: ReactNode;
}

const WIDE = matchMedia('(min-width: 60rem)');
const onWidth = (tell: () => void) => {
  WIDE.addEventListener('change', tell);
  return () => {
    WIDE.removeEventListener('change', tell);
  };
};

export function Frame({ page, chatId, chat, list, children }: Props) {
  const { t } = useTranslation();
  const isWide = useSyncExternalStore(onWidth, () => WIDE.matches);
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  useEffect(() => followChats(), []);
  const title = usePicked(chats, (list) => list.chats.find((chat) => chat.id === chatId)?.title) ?? undefined;
  // What waits in this chat is known at once; the list of the others is asked for while one looks.
  const own = usePicked(ownWaiting, (one) => (one.chatId === chatId ? one.count : 0));
  const elsewhere = usePicked(waiting, (list) => {
    const pending = list.flatMap((one) => (one.chat.id === chatId ? [] : one.pending));
    return pending.filter(({ decision }) => decision?.mayDecide !== false).length;
  });
  const waits = own + elsewhere;
  useEffect(() => {
    const count = waits > 0 ? `(${waits}) ` : '';
    document.title = count + (title === undefined ? t('name') : `${title} · ${t('name')}`);
  }, [title, waits, t]);
  const closeDrawer = () => {
    setDrawerOpen(false);
  };
  const side = <Side {...{ page, chatId, list }} onShow={closeDrawer} />;
  return (
    <div className="flex h-dvh bg-paper text-ink">
      <a
        href={`#${COMPOSER_ID}`}
        className="button sr-only z-30 focus:not-sr-only focus:absolute focus:top-2 focus:left-2"
      >
        {t('skip')}
      </a>
      {isWide && <aside className="flex w-72 shrink-0 flex-col border-r border-line bg-sunken">{side}</aside>}
      {!isWide && isDrawerOpen && <Drawer onClose={closeDrawer}>{side}</Drawer>}
      <main className="flex min-w-0 flex-1 flex-col">
        <header className="flex min-h-14 items-center gap-1 px-3">
          {!isWide && (
            <IconButton
              label={t('menu.open')}
              aria-expanded={isDrawerOpen}
              onClick={() => {
                setDrawerOpen(true);
              }}
            >
              <Menu />
            </IconButton>
          )}
          <Top chatId={chatId} chat={chat} title={title} />
          <InboxLink chatId={chatId} />
          {!isWide && (
            <IconButton label={t('chats.new')} onClick={showNewChat}>
              <SquarePen />
            </IconButton>
          )}
        </header>
        <ConnectionBanner chatId={chatId} />
        {children}
      </main>
      <MemoriesDialog onShow={closeDrawer} />
      <Shortcuts />
      <TokenDialog />
    </div>
  );
}

/** The title of the chat, who answers in it, and its export. A chat that the list does not have yet, or no more, has no title here. */
function Top({ chatId, chat, title }: Pick<Props, 'chatId' | 'chat'> & { title: string | undefined }) {
  const { t } = useTranslation();
  const isUnknown = useCell(unknownChats).has(chatId);
  // A chat is new until it has had a connection.
  const isNew = usePicked(connections, () => isNewChat(chatId)) || isUnknown;
  const words = title ?? t(isNew ? 'chats.untitled' : 'name');
  return (
    <>
      <div className="min-w-0 flex-1 px-1 lg:pl-3">
        <h1 dir="auto" className="truncate text-left leading-6 font-medium" title={title}>
          {words}
        </h1>
        <div className="flex min-w-0 items-center gap-3 text-xs text-muted">
          {chat && <AssistantPicker chatId={chatId} chat={chat} />}
          <ConnectionWord chatId={chatId} />
        </div>
      </div>
      {!isNew && <ExportMenu key={chatId} chatId={chatId} title={words} />}
    </>
  );
}

function Side({
  page,
  chatId,
  list,
  onShow,
}: Pick<Props, 'page' | 'chatId' | 'list'> & { onShow: () => void }) {
  const { t } = useTranslation();
  return (
    <>
      <div className="flex min-h-14 items-center gap-2.5 px-5 pt-2">
        <Sign className="size-7 text-accent" />
        <p className="font-serif text-xl">{t('name')}</p>
      </div>
      {/* It keeps its place above a list of any length. */}
      <div className="flex items-center gap-1 px-3 py-3">
        <NewChatButton onShow={onShow} />
        <FinderButton onOpen={onShow} />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-3 pb-3">
        <PendingElsewhere chatId={chatId} onShow={onShow} />
        {list?.(onShow) ?? <ChatList chatId={chatId} onShow={onShow} />}
      </div>
      <footer className="border-t border-line p-2">
        <Settings page={page} chatId={chatId} />
      </footer>
    </>
  );
}

function Drawer({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  const { t } = useTranslation();
  const drawer = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = drawer.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    // A click beside the drawer closes it; by keyboard, Escape and the button do.
    /* eslint-disable-next-line
       jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions */
    <dialog
      ref={drawer}
      aria-label={t('chats.label')}
      className={
        'drawer m-0 h-dvh max-h-none w-[min(20rem,85vw)] flex-col border-r border-line bg-sunken ' +
        'text-ink open:flex backdrop:bg-black/40'
      }
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      <IconButton label={t('menu.close')} onClick={onClose} className="absolute top-3 right-3">
        <X />
      </IconButton>
      {children}
    </dialog>
  );
}
