// Follows the statuses of all calls of a chat.

import { useSyncExternalStore } from 'react';
import type { FermataChat } from 'fermata-chat';

let changes = 0;

/** Renders again whenever the status of a call changes. */
export function useCallChanges(chat: Pick<FermataChat, 'onCallStatus'>) {
  useSyncExternalStore(
    (tell) =>
      chat.onCallStatus(() => {
        changes += 1;
        tell();
      }),
    () => changes,
  );
}
