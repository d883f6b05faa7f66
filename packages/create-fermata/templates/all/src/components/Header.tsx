import { MessagesSquare, Plus } from 'lucide-react';
import type { ReactElement, ReactNode, ToggleEvent } from 'react';

interface HeaderProps {
  /** A button or a link with the class `button` around `newChatLabel`. */
  newChat: ReactElement;
  /** The list of chats. A popover shows it. */
  children: ReactNode;
  /** Called when the list appears. */
  onShowChats?: () => void;
}

/** The id of the popover. A button with it as `popoverTarget` closes the list. */
export const CHATS = 'chats';

export const newChatLabel = (
  <>
    <Plus className="size-4" aria-hidden />
    New chat
  </>
);

export function Header({ newChat, children, onShowChats }: HeaderProps) {
  const onToggle = (event: ToggleEvent<HTMLElement>) => {
    if (event.newState === 'open') onShowChats?.();
  };
  return (
    <header className="border-b border-line">
      <div className="column flex min-h-14 items-center gap-2">
        <h1 className="me-auto font-semibold">Chat</h1>
        <button type="button" popoverTarget={CHATS} className="button">
          <MessagesSquare className="size-4" aria-hidden />
          Chats
        </button>
        {newChat}
      </div>
      <nav
        id={CHATS}
        popover="auto"
        aria-label="Chats"
        onToggle={onToggle}
        className={
          'fixed inset-x-4 top-16 ms-auto max-h-[70dvh] w-auto overflow-y-auto rounded-xl border border-field bg-raised p-2 ' +
          'text-ink shadow-lg sm:right-[max(1rem,calc(50vw-22rem))] sm:left-auto sm:w-96'
        }
      >
        {children}
      </nav>
    </header>
  );
}
