// The page's line to Fermata, the same for both pages: the token, the choice of tools, how the connection is,
// the page's own tools. The chat itself is in packages/fermata-chat.

import { fermata, type Connection, type FermataOptions } from 'fermata-chat';
import { Cell } from '../../state/cell';
import { browserTools } from '../../tools';
import { assistantOf, forgetAssistant } from './assistantChoice';
import { noLongerNew } from './chatId';
import { isMemoryUsed } from './memoryChoice';
import { authorized } from './token';
import { choiceBody, spendChoice } from './toolChoice';

/** The connection of each chat's stream. */
export const connections = new Cell<Readonly<Record<string, Connection>>>({});

/** Hears that something changed on the server that lists show: a run began or ended, an answer was given. */
const listeners = new Set<() => void>();

export function onServerEvent(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function tellServerEvent() {
  for (const listener of listeners) listener();
}

/** Chats that the server knows nothing of, or that nobody else may see. */
export const unknownChats = new Cell<ReadonlySet<string>>(new Set());

const CHAT = /\/api\/chat\/([^/?]+)\?optional=true$/;

function noteUnknown(url: string, status: number) {
  const id = status === 204 ? CHAT.exec(url)?.[1] : undefined;
  if (id !== undefined) unknownChats.set(new Set([...unknownChats.value, decodeURIComponent(id)]));
}

/** A post that was accepted has begun the chat again, or for the first time. */
function noteKnown(body: string) {
  if (unknownChats.value.size === 0) return;
  const { id = '' } = JSON.parse(body) as { id?: string };
  unknownChats.set(new Set([...unknownChats.value].filter((unknown) => unknown !== id)));
}

const addressOf = (url: Parameters<typeof fetch>[0]) => (url instanceof Request ? url.url : url.toString());

const isPost = (url: string, init: RequestInit | undefined) =>
  init?.method === 'POST' && url.endsWith('/api/chat');

export const options: FermataOptions = {
  tools: browserTools,
  body: choiceBody,
  assistant: (chatId) => assistantOf(chatId).value.assistant,
  model: (chatId) => assistantOf(chatId).value.model,
  memory: () => isMemoryUsed.value,
  givesBack: true,
  fetch: async (url, init) => {
    const response = await authorized(url, init);
    if (isPost(addressOf(url), init) && typeof init?.body === 'string') {
      spendChoice(init.body);
      if (response.ok) {
        forgetAssistant(init.body);
        noteKnown(init.body);
      }
    }
    noteUnknown(addressOf(url), response.status);
    if (init?.method !== undefined && init.method !== 'GET') tellServerEvent();
    return response;
  },
  onConnection: (connection, chatId) => {
    noLongerNew(chatId);
    connections.set({ ...connections.value, [chatId]: connection });
    tellServerEvent();
  },
};

export const server = fermata(options);
