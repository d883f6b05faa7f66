// The owner's chats, and what waits in them. Asked for again while the page is looked at: every few seconds,
// and after anything that may have changed them. All components of a page share one list.

import type { Pending } from 'fermata-chat';
import { Cell } from '../../state/cell';
import { forgetDraft } from './drafts';
import { onServerEvent, server } from './server';
import { countWaiting } from './waitingForMe';

/** A chat, as `GET /api/chats` has it. */
export interface ListedChat {
  id: string;
  title?: string | null;
  createdAt: string;
  updatedAt: string;
  /** The number of calls and questions that wait for somebody; absent from servers that do not count them. */
  pending?: number;
  /** `true` if a run is open. */
  open?: boolean;
}

interface Page {
  chats: ListedChat[];
  next?: string;
}

export interface Chats {
  state: 'loading' | 'known' | 'failed';
  chats: ListedChat[];
  /** The cursor of older chats; absent if there are none. */
  next?: string;
  error?: unknown;
}

/** A chat, and the requests that wait in it. */
export interface Waiting {
  chat: ListedChat;
  pending: Pending[];
}

const PAGE = 30;
const EVERY = 10_000;
/** The delay between an event and the request for the lists, so that several events make one request. */
const SOON = 400;
/** Of how many chats it is asked what waits in them. */
const MAX_WAITING = 12;

export const chats = new Cell<Chats>({ state: 'loading', chats: [] });
export const waiting = new Cell<readonly Waiting[]>([]);

/** The list with its first page replaced: older chats stay, unless the page should have had them. */
export function withFirstPage(known: Chats, page: Page): Chats {
  const oldest = page.chats.at(-1)?.updatedAt;
  const isListed = new Set(page.chats.map((chat) => chat.id));
  const isOlder = (chat: ListedChat) =>
    oldest !== undefined && chat.updatedAt < oldest && !isListed.has(chat.id);
  const older = page.next === undefined ? [] : known.chats.filter(isOlder);
  const next = older.length > 0 ? known.next : page.next;
  return { state: 'known', chats: [...page.chats, ...older], ...(next !== undefined && { next }) };
}

/** The list with a page more. */
export function withNextPage(known: Chats, page: Page): Chats {
  const isKnown = new Set(known.chats.map((chat) => chat.id));
  const more = page.chats.filter((chat) => !isKnown.has(chat.id));
  return {
    state: 'known',
    chats: [...known.chats, ...more],
    ...(page.next !== undefined && { next: page.next }),
  };
}

/** Asks for the list and for what waits. */
export async function loadChats(): Promise<void> {
  try {
    chats.set(withFirstPage(chats.value, await server.request<Page>(`/api/chats?limit=${PAGE}`)));
  } catch (error) {
    // A list that was there stays; the next time may go better.
    if (chats.value.state !== 'known') chats.set({ state: 'failed', chats: [], error });
    return;
  }
  await loadWaiting();
}

export async function loadOlderChats(): Promise<void> {
  const { next } = chats.value;
  if (next === undefined) return;
  const page = await server.request<Page>(`/api/chats?limit=${PAGE}&before=${encodeURIComponent(next)}`);
  chats.set(withNextPage(chats.value, page));
}

export async function deleteChat(id: string): Promise<void> {
  await server.request(`/api/chat/${encodeURIComponent(id)}`, { method: 'DELETE' });
  forgetDraft(id);
  tellOtherTabs(id);
  chats.set({ ...chats.value, chats: chats.value.chats.filter((chat) => chat.id !== id) });
  waiting.set(waiting.value.filter(({ chat }) => chat.id !== id));
}

/** Other tabs that show the chat load it, as if something had changed in it (`fermata-chat`, `tabs.ts`). */
function tellOtherTabs(id: string) {
  if (typeof BroadcastChannel === 'undefined') return;
  const channel = new BroadcastChannel('fermata');
  channel.postMessage(`/api/chat ${id}`);
  channel.close();
}

const stampOf = ({ updatedAt, pending }: ListedChat) => `${updatedAt} ${pending ?? 0}`;

async function loadWaiting(): Promise<void> {
  const before = new Map(waiting.value.map((one) => [one.chat.id, one]));
  const asked = chats.value.chats.filter(({ pending = 0 }) => pending > 0).slice(0, MAX_WAITING);
  const found = await Promise.allSettled(
    asked.map(async (chat): Promise<Waiting> => {
      const known = before.get(chat.id);
      if (known !== undefined && chat.open !== true && stampOf(known.chat) === stampOf(chat)) return known;
      const { pending } = await server.request<{ pending: Pending[] }>(
        `/api/chat/${encodeURIComponent(chat.id)}/pending`,
      );
      return { chat, pending };
    }),
  );
  waiting.set(
    found.flatMap((one) => (one.status === 'fulfilled' && one.value.pending.length > 0 ? [one.value] : [])),
  );
}

/** Keeps both lists fresh while the page is looked at. Returns what ends that. */
export function followChats(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  const plan = (wait: number) => {
    clearTimeout(timer);
    if (!isOver) timer = setTimeout(() => void ask(), wait);
  };
  const ask = async () => {
    if (document.visibilityState === 'visible') await Promise.all([loadChats(), countWaiting()]);
    plan(EVERY);
  };
  const soon = () => {
    plan(SOON);
  };
  const endEvents = onServerEvent(soon);
  // The helper tells other tabs of this browser about what begins here.
  const tabs = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel('fermata');
  tabs?.addEventListener('message', soon);
  document.addEventListener('visibilitychange', soon);
  addEventListener('online', soon);
  void ask();
  return () => {
    isOver = true;
    clearTimeout(timer);
    endEvents();
    tabs?.close();
    document.removeEventListener('visibilitychange', soon);
    removeEventListener('online', soon);
  };
}
