// That something waits for the person, told where they look: in the title of the page, and, if they have allowed
// it, in a notification of the browser while the page is hidden.

import i18next from 'i18next';
import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';

const KEY = 'fermata.notify';

/** The number of waits in the chat that is shown. The list of other chats' waits is asked for only while one looks. */
export const ownWaiting = new Cell<{ chatId: string; count: number }>({ chatId: '', count: 0 });

/** `true` if the person wants notifications, and the browser allows them. */
export const notifies = new Cell<boolean>(recall(KEY) === 'yes' && permission() === 'granted');

/** The browser's permission for notifications; `unsupported` where it has none. */
export function permission(): NotificationPermission | 'unsupported' {
  return typeof Notification === 'undefined' ? 'unsupported' : Notification.permission;
}

/** Turns notifications on or off. The browser may ask the person first. */
export async function setNotifies(isOn: boolean): Promise<void> {
  const isAllowed = isOn && (await Notification.requestPermission()) === 'granted';
  keep(KEY, isAllowed ? 'yes' : undefined);
  notifies.set(isAllowed);
}

/** Takes note of how much waits in a chat, and notifies the person of more than before. */
export function noteWaiting(chatId: string, count: number) {
  const before = ownWaiting.value.chatId === chatId ? ownWaiting.value.count : 0;
  ownWaiting.set({ chatId, count });
  if (count <= before || !notifies.value || document.visibilityState === 'visible') return;
  // One for each chat: a newer one replaces it.
  const told = new Notification(i18next.t('notification.title', { ns: 'runs' }), {
    body: i18next.t('notification.text', { ns: 'runs', count }),
    tag: `fermata ${chatId}`,
  });
  told.onclick = () => {
    window.focus();
    told.close();
  };
}
