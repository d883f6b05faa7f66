// Which chat is shown. Its id is in the URL (`?chat=`), so that a reload, a link and the other page show the
// same chat.

import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';

/** The ids that the server takes. */
const IS_ID = /^[A-Za-z0-9_.:-]{1,128}$/;

export const isChatId = (text: string | null): text is string => text !== null && IS_ID.test(text);

/** A new id. `randomUUID` is missing where the page did not come over https or from this machine. */
export function newChatId(
  source: Pick<Crypto, 'getRandomValues'> & Partial<Pick<Crypto, 'randomUUID'>> = crypto,
): string {
  if (source.randomUUID !== undefined) return source.randomUUID();
  const bytes = source.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Ids made by this page under which nothing was sent yet: the server has nothing of them. */
const unused = new Set<string>();

const BEGUN = 'fermata.begun';

const freshId = () => {
  const id = newChatId();
  unused.add(id);
  keep(BEGUN, id, 'sessionStorage');
  return id;
};

/** Returns `true` if this tab made the id for its newest chat, even before a reload. */
export const wasBegunHere = (id: string) => recall(BEGUN, 'sessionStorage') === id;

export const isNewChat = (id: string) => unused.has(id);

/** Something was sent under the id. */
export const noLongerNew = (id: string) => {
  unused.delete(id);
};

const inUrl = (): string | undefined => {
  const id = new URLSearchParams(location.search).get('chat');
  return isChatId(id) ? id : undefined;
};

export const chatUrl = (id: string, path = location.pathname) => `${path}?chat=${encodeURIComponent(id)}`;

export const chatId = new Cell<string>(inUrl() ?? freshId());

/** Shows another chat, and makes it a place to come back to. */
export function showChat(id: string) {
  if (id === chatId.value) return;
  history.pushState(null, '', chatUrl(id));
  chatId.set(id);
}

export const showNewChat = () => {
  showChat(freshId());
};

/** Before the first rendering: the URL names the chat, and going back shows the one before. */
export function setUpChatId() {
  if (inUrl() === undefined) history.replaceState(null, '', chatUrl(chatId.value));
  addEventListener('popstate', () => {
    chatId.set(inUrl() ?? freshId());
  });
}
