import { ThreadListItemPrimitive, ThreadListPrimitive, useAuiState } from '@assistant-ui/react';
import { CHATS } from './Header';

/** The chats of the server. */
export function Threads() {
  const isEmpty = useAuiState(({ threads }) => threads.threadIds.length === 0);
  return (
    <ThreadListPrimitive.Root>
      {isEmpty && <p className="p-2 text-sm text-muted">There are no chats yet.</p>}
      <ThreadListPrimitive.Items>
        {() => (
          <ThreadListItemPrimitive.Root className="rounded-lg hover:bg-sunken data-active:bg-accent-soft">
            <ThreadListItemPrimitive.Trigger
              popoverTarget={CHATS}
              popoverTargetAction="hide"
              className="w-full truncate rounded-lg px-3 py-2 text-start text-sm"
            >
              <bdi>
                <ThreadListItemPrimitive.Title fallback="New chat" />
              </bdi>
            </ThreadListItemPrimitive.Trigger>
          </ThreadListItemPrimitive.Root>
        )}
      </ThreadListPrimitive.Items>
      <ThreadListPrimitive.LoadMore className="button mt-2 disabled:hidden">
        More chats
      </ThreadListPrimitive.LoadMore>
    </ThreadListPrimitive.Root>
  );
}
