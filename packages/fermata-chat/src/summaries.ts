// The summary that stands for the earlier messages of a chat when its model is asked.

import type { SummaryReason } from './context.js';
import { FollowedValue, type Followed } from './followed.js';
import { FermataError, type Server } from './server.js';

/** A summary. A field that it does not know is empty. */
export interface Summary {
  /** The goal of the person. */
  goal: string;
  decisions: string[];
  done: string[];
  todo: string[];
  facts: string[];
  /** Names, numbers, dates, addresses and the like, by what they are. */
  entities: Record<string, string>;
  openQuestions: string[];
  toolsUsed: string[];
}

/** The summary of a chat, and what it stands for. */
export interface ChatSummary {
  summary: Summary;
  /** The id of the last message that it covers. */
  upTo: string;
  /** The number of messages that it covers, from the first of the chat. */
  messages: number;
  reason: SummaryReason;
  /** The name of the model that has written it. */
  model: string;
  createdAt: string;
}

/** Reads the summary of a chat; `undefined` if it has none. */
export async function readSummary(server: Server, chatId: string): Promise<ChatSummary | undefined> {
  try {
    // A browser would log a 404 as an error.
    const url = server.chatUrl(chatId, '/summary?optional=true');
    return await server.json<ChatSummary | undefined>(url);
  } catch (error) {
    // A chat that is not known has none either.
    if (error instanceof FermataError && error.status === 404) return undefined;
    throw error;
  }
}

/** Replaces the text of a chat's summary. */
export function correctSummary(server: Server, chatId: string, summary: Partial<Summary>) {
  const body = JSON.stringify({ summary });
  return server.json<ChatSummary>(server.chatUrl(chatId, '/summary'), { method: 'PUT', body });
}

/** Has a summary of a chat written now. */
export function compactChat(server: Server, chatId: string, instructions?: string) {
  const body = JSON.stringify({ instructions });
  return server.json<ChatSummary>(server.chatUrl(chatId, '/compact'), { method: 'POST', body });
}

/** A summary ends before a message of the person, so a chat with fewer messages has none. */
const FEWEST_MESSAGES = 3;

/**
 * When the summary is asked for after the end of a run, in milliseconds. It is written in the background, and nothing
 * says when it is there; if it comes later, the next end of a run or the next loading of the chat brings it.
 */
const AFTER_RUN = [3000, 15_000];

/** The summary of one chat, which is loaded with the chat and after its runs, as long as somebody follows it. */
export class FollowedSummary implements Followed<ChatSummary | undefined> {
  readonly #read: () => Promise<ChatSummary | undefined>;
  readonly #summary = new FollowedValue<ChatSummary | undefined>(undefined);
  /** Tells the newest reading from older ones. */
  #readings = 0;
  /** `true` if the summary may have changed while nobody followed it. */
  #isStale = false;
  #timers: ReturnType<typeof setTimeout>[] = [];

  constructor(read: () => Promise<ChatSummary | undefined>) {
    this.#read = read;
  }

  get = this.#summary.get;

  subscribe = (listener: () => void): (() => void) => {
    const end = this.#summary.subscribe(listener);
    if (this.#isStale) this.#load();
    return () => {
      end();
      if (!this.#summary.isFollowed) this.#cancel();
    };
  };

  set(summary: ChatSummary | undefined) {
    this.#readings += 1;
    this.#isStale = false;
    this.#summary.set(summary);
  }

  /** The chat has so many messages now. A summary that is still expected is looked for at its times all the same. */
  refresh(messages: number) {
    if (messages < FEWEST_MESSAGES) {
      this.#cancel();
      this.set(undefined);
    } else if (this.#summary.isFollowed) this.#load();
    else this.#isStale = true;
  }

  /** A run of the chat has ended. */
  refreshSoon(messages: number) {
    this.#cancel();
    if (messages < FEWEST_MESSAGES) return;
    this.#isStale = true;
    if (!this.#summary.isFollowed) return;
    this.#timers = AFTER_RUN.map((wait) =>
      setTimeout(() => {
        this.#load();
      }, wait),
    );
  }

  #load() {
    this.#readings += 1;
    const reading = this.#readings;
    this.#read().then(
      (summary) => {
        if (reading !== this.#readings) return;
        if (summary?.createdAt !== this.get()?.createdAt) this.#cancel();
        this.set(summary);
      },
      // What was known stays; the next end of a run asks again.
      () => undefined,
    );
  }

  #cancel() {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers = [];
  }
}
