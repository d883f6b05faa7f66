// The AI SDK's seam for servers: posts a chat, and reads its stream over as many connections as it takes.
//
// Works alone, as `useChat({ transport: new FermataTransport() })`. It does not know what a page shows; what
// needs that (loading, answers, other tabs, tools of the page) begins in `chat.ts`.

import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import type { Chosen } from './assistants.js';
import { isDelivered } from './outbox.js';
import { shownApprovals } from './parts.js';
import { readRecord, type ChatRecord } from './record.js';
import { FermataError, pause, refusalOf, Server, streamOf, type ServerOptions } from './server.js';
import { chunkStream, type Lost, type Reopened, type StreamEvent } from './stream.js';
import { AI_VERSION, knowsResetStep } from './version.js';

/** A tool that this page runs. */
export interface BrowserTool {
  /** The description for the model. */
  description?: string;
  /** JSON Schema of its input. */
  inputSchema: object;
  /** Runs a call. An exception becomes the call's error. If left out, the page answers with `addToolOutput`. */
  execute?: (input: unknown, call: { toolCallId: string; signal: AbortSignal }) => unknown;
  /** `true` if a call may run again if the page goes away while it runs. */
  repeatable?: boolean;
}

export interface FermataOptions extends ServerOptions {
  /** The version of `ai`, if it is not the one that is installed: `"7.0.173"`, or a major version. */
  client?: string | number;
  /**
   * `true` if a message that the server refuses leaves the chat, for a page that puts its words back where they were written: `givenBack` has
   * the message and the reason. Otherwise it stays among the messages, and the chat has the error.
   */
  givesBack?: boolean;
  /** The time that a stream stays open while calls wait, such as `30s`; the server's own setting by default. */
  hold?: string;
  /**
   * The data parts that the server streams besides the AI SDK's own: `call` is `data-call`, the state of a call
   * whenever it changes; `context` is `data-context`, the tokens of each step, and `data-compaction`, a summary that
   * is written during a run; `memory` is `data-memory`, what a run has done with memories.
   *
   * A chat of `fermata()` asks for `all` by itself. Every server knows that word, while a server refuses a kind that
   * it does not know, and a page ignores parts that it does not know. A transport alone asks for none by itself.
   */
  show?: 'all' | ('call' | 'context' | 'memory' | 'plan' | 'run')[];
  /**
   * The assistant that answers, by its name in the list of assistants. A chat keeps the one that it was given
   * last; `undefined` leaves it as it is.
   */
  assistant?: string | ((chatId: string) => string | undefined);
  /** The model that answers: one of the assistant's. A chat keeps it in the same way. */
  model?: string | ((chatId: string) => string | undefined);
  /**
   * `false` leaves the posts out of memory: nothing is recalled for them, and nothing in them is remembered. A server
   * of a version without memory refuses it.
   */
  memory?: boolean | (() => boolean | undefined);
  /** More fields of every post: `system`, `toolChoice`, `callSettings`, … */
  body?: (chatId: string) => object;
  /** The page's tools, by name. */
  tools?: Record<string, BrowserTool> | ((chatId: string) => Record<string, BrowserTool>);
  /**
   * The longest silence of a connection before it counts as broken, in milliseconds; the server sends something
   * every ten seconds.
   */
  silence?: number;
  /** Called when the connection of a chat changes. */
  onConnection?: (connection: Connection, chatId: string) => void;
}

/** `closed`: no stream is read. `open`: one is. `reconnecting`: it broke, and is being opened again. */
export type Connection = 'closed' | 'open' | 'reconnecting';

/** The events of a request of the AI SDK, for the observer of the chat. */
export type RequestEvent =
  /** `message`: what a person has said, if the server does not have it yet. */
  | { type: 'sent'; message?: UIMessage }
  | { type: 'accepted' }
  | { type: 'refused'; error: unknown; isAborted: boolean; message?: UIMessage }
  | { type: 'resumed' }
  | { type: 'retrying' }
  | StreamEvent;

/** Looks after the chat that the transport serves. */
export interface Observer {
  /** The number of the next request. */
  begin: () => number;
  on: (request: number, event: RequestEvent) => void;
  /** The server has accepted a post that chose an assistant or a model. */
  onChosen: (chosen: Chosen) => void;
  /** Returns `true` if a call that the page shows as waiting for a decision is known to wait no longer. */
  isDecided: (toolCallId: string) => boolean;
  /** Reads the record, and tries again while `goesOn` returns `true`. */
  record: (goesOn: () => boolean) => Promise<ChatRecord>;
  /** The reply to the AI SDK when it asks for the stream: one that was opened before, or an error to be shown. */
  prepared: () => Prepared | undefined;
}

export type Prepared =
  | { type: 'stream'; request: number; abort: AbortController; body: ReadableStream<Uint8Array> }
  | { type: 'error'; error: Error };

/** The number of posts of a message whose connection fails each time, and of looks into the record after each. */
const POSTS = 3;
const LOOKS = 3;

/** Four keep-alive comments of the server missed. */
const SILENCE = 45_000;

type SendOptions<MESSAGE extends UIMessage> = Parameters<ChatTransport<MESSAGE>['sendMessages']>[0];
/** Only newer versions of the AI SDK end a stream that was resumed. */
type ReconnectOptions<MESSAGE extends UIMessage> = Parameters<
  ChatTransport<MESSAGE>['reconnectToStream']
>[0] & { abortSignal?: AbortSignal };

export class FermataTransport<MESSAGE extends UIMessage = UIMessage> implements ChatTransport<MESSAGE> {
  /** The server begins each stream with the whole message that is being written. */
  readonly resumeStreamIsReplay = true;
  readonly server: Server;
  /** Chats that the server has: what was said before in these is no news to it. */
  readonly known = new Set<string>();
  /** The messages of persons that the server has. */
  readonly #taken = new Set<string>();
  /** Those that it did not take. They are no part of the history that it is sent. */
  readonly #untaken = new Set<string>();
  readonly #reading = new Map<number, AbortController>();
  readonly #sending = new Map<number, AbortController>();
  /** The newest post of each chat, and whether the server accepts it. */
  readonly #posts = new Map<string, { request: number; isAccepted: Promise<boolean> }>();
  readonly #options: FermataOptions;
  readonly #observer: Observer | undefined;
  #requests = 0;

  constructor(options: FermataOptions = {}, observer?: Observer) {
    this.server = new Server(options);
    this.#options = options;
    this.#observer = observer;
  }

  tools(chatId: string): Record<string, BrowserTool> {
    const { tools } = this.#options;
    return (typeof tools === 'function' ? tools(chatId) : tools) ?? {};
  }

  async sendMessages(options: SendOptions<MESSAGE>): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, messages, trigger, messageId, abortSignal } = options;
    const request = this.#begin();
    let decide: (isAccepted: boolean) => void = () => undefined;
    const isAccepted = new Promise<boolean>((resolve) => (decide = resolve));
    this.#posts.set(chatId, { request, isAccepted });
    const sending = new AbortController();
    const reading = new AbortController();
    // A page that is left reads no more, but what it has said is still sent; only the AI SDK ends both.
    follow(abortSignal, sending, reading);
    this.#sending.set(request, sending);
    const said = trigger === 'submit-message' ? messages.at(-1) : undefined;
    const isNews = said?.role === 'user' && !this.#taken.has(said.id);
    const news = isNews ? { message: said } : {};
    this.#on(request, { type: 'sent', ...news });
    // Only what is new is sent, so the server cannot see where an edited message was.
    const edited = messageId ?? (said?.role === 'user' && !isNews ? said.id : undefined);
    const fields = { ...this.#body(chatId), ...options.body, id: chatId, trigger, messageId: edited };
    const chosen = this.#chosen(chatId);
    const decides = trigger === 'submit-message' ? this.#decides(messages) : [];
    const send = (messages: MESSAGE[], exists: boolean) => {
      const fermata = {
        ...this.#fermata(chosen),
        ...(decides.length > 0 && { decides }),
        ...(exists && { exists }),
      };
      const headers = plainHeaders(options.headers);
      return this.server.post({ ...fields, messages, fermata }, headers, sending.signal);
    };
    const history = messages.filter(
      (message, place) => place === messages.length - 1 || !this.#untaken.has(message.id),
    );
    const post = async () => {
      let response: Response;
      if (this.known.has(chatId)) {
        response = await send(messages.slice(-1), true);
        if (response.status === 404) {
          // The server has lost it: what this page has of it is what there is.
          this.known.delete(chatId);
          response = await send(history, false);
        }
      } else response = await send(history, false);
      // As it is, the AI SDK would show the problem document instead of its words.
      if (!response.ok) throw await refusalOf(response);
      return streamOf(response);
    };
    try {
      const { signal } = sending;
      const body = await (said === undefined
        ? post()
        : this.#untilTaken(chatId, request, said, post, signal));
      this.known.add(chatId);
      if (said !== undefined) this.noteTaken([said]);
      decide(true);
      this.#observer?.onChosen(chosen);
      this.#reading.set(request, reading);
      this.#on(request, { type: 'accepted' });
      // A message that goes on is in the AI SDK already, and a stream from its beginning would bring it again.
      const isNew = messages.at(-1)?.role === 'user';
      return this.#read(chatId, request, reading, body, isNew);
    } catch (error) {
      decide(false);
      if (isNews) this.#untaken.add(said.id);
      this.#on(request, { type: 'refused', error, isAborted: sending.signal.aborted, ...news });
      throw error;
    } finally {
      this.#sending.delete(request);
    }
  }

  async reconnectToStream(
    options: ReconnectOptions<MESSAGE>,
  ): Promise<ReadableStream<UIMessageChunk> | null> {
    const { chatId, abortSignal } = options;
    const prepared = this.#observer?.prepared();
    if (prepared?.type === 'error') throw prepared.error;
    const request = prepared?.request ?? this.#begin();
    const reading = prepared?.abort ?? new AbortController();
    follow(abortSignal, reading);
    const body = prepared?.body ?? (await this.open(chatId, undefined, request, reading.signal));
    if (body === undefined) return null;
    this.known.add(chatId);
    this.#on(request, { type: 'resumed' });
    return this.#read(chatId, request, reading, body, true);
  }

  /** The server has these messages. */
  noteTaken(messages: readonly UIMessage[]): void {
    for (const { id } of messages) {
      this.#taken.add(id);
      this.#untaken.delete(id);
    }
  }

  /**
   * Posts a message. If the connection fails, nobody knows whether the server has it, so the record is asked: what the server has is
   * read like a stream that broke before its first word, and what it has not is posted again. While there is no network at all, the
   * message of a chat that is observed waits for it.
   */
  async #untilTaken(
    chatId: string,
    request: number,
    message: MESSAGE,
    post: () => Promise<ReadableStream<Uint8Array>>,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array>> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await post();
      } catch (error) {
        if (signal.aborted || !isUnclear(error)) throw error;
        await pause(0, signal);
        const waits = this.#observer !== undefined && error instanceof TypeError;
        const goesOn = (look: number) => {
          if (waits) this.#on(request, { type: 'retrying' });
          return !signal.aborted && (waits || look < LOOKS);
        };
        const isTaken = await this.#isTaken(chatId, message, goesOn, signal);
        if (isTaken === true) return closedStream();
        signal.throwIfAborted();
        if (isTaken === undefined || isInPlaceOfStream(error) || attempt === POSTS) throw error;
      }
    }
  }

  /** Returns `true` if the server has a message; `undefined` if it does not say. */
  async #isTaken(
    chatId: string,
    message: MESSAGE,
    goesOn: (look: number) => boolean,
    signal: AbortSignal,
  ): Promise<boolean | undefined> {
    try {
      const { messages } = await readRecord(this.server, chatId, goesOn, signal);
      // A message that goes on has no words of its own: its answers were given before, and the record knows what follows.
      return message.role !== 'user' || isDelivered(message, messages);
    } catch (error) {
      return error instanceof FermataError && error.code === 'not_found' ? false : undefined;
    }
  }

  /** Has a call that has failed made again, by a run whose stream is not read here. */
  async retryCall(chatId: string, toolCallId: string): Promise<void> {
    const url = this.server.chatUrl(chatId, `/calls/${encodeURIComponent(toolCallId)}/retry`);
    const body = { ...this.#body(chatId), fermata: this.#fermata(this.#chosen(chatId)) };
    const response = await this.server.fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw await refusalOf(response);
    void streamOf(response)
      .cancel()
      .catch(() => undefined);
  }

  /** Ends the reading of a stream. */
  abortReading(request: number): void {
    this.#reading.get(request)?.abort();
  }

  /** Ends posts that have no answer yet; whether there was one. */
  abortSending(): boolean {
    for (const sending of this.#sending.values()) sending.abort();
    return this.#sending.size > 0;
  }

  #begin() {
    return this.#observer?.begin() ?? ++this.#requests;
  }

  #on(request: number, event: RequestEvent) {
    this.#observer?.on(request, event);
  }

  /** Asks for the stream of a chat's open run, from its beginning or after a position. */
  open(chatId: string, position: string | undefined, request: number, signal: AbortSignal) {
    return this.server.openStream(chatId, position, signal, () => {
      this.#on(request, { type: 'retrying' });
    });
  }

  #read(
    chatId: string,
    request: number,
    abort: AbortController,
    first: ReadableStream<Uint8Array>,
    isFromBeginning: boolean,
  ): ReadableStream<UIMessageChunk> {
    this.#reading.set(request, abort);
    return chunkStream({
      first,
      abort,
      silence: this.#options.silence ?? SILENCE,
      newerPost: () => {
        const post = this.#posts.get(chatId);
        return post !== undefined && post.request > request ? post.isAccepted : undefined;
      },
      reopen: (lost) => {
        const canGoOn = !lost.isOver && (lost.position !== undefined || (isFromBeginning && !lost.hasBegun));
        return this.#reopen(chatId, request, abort.signal, lost, canGoOn);
      },
      on: (event) => {
        if (event.type === 'ended') this.#reading.delete(request);
        this.#on(request, event);
      },
      // The observer of the chat loads what is missing. Nobody else can, so the AI SDK shows an error.
      ...(this.#observer === undefined && { onLost: throwLost }),
    });
  }

  /**
   * Opens a stream again while the record has an open run. If it cannot go on where it ended, the run's stream is opened
   * from its beginning, for the observer of the chat.
   */
  async #reopen(
    chatId: string,
    request: number,
    signal: AbortSignal,
    { position, vain }: Lost,
    canGoOn: boolean,
  ): Promise<Reopened> {
    // Words that the page has are made again, and its version of the AI SDK cannot take them back.
    const isStuck = vain > 0 && position !== undefined && !knowsResetStep(this.#options.client ?? AI_VERSION);
    const isAlone = this.#observer === undefined;
    if (!canGoOn && isAlone) return {};
    const beginsAgain = !canGoOn || (isStuck && !isAlone);
    for (let attempt = vain; !signal.aborted; attempt++) {
      let record: ChatRecord | undefined;
      if (attempt > 0 || beginsAgain) {
        record = await this.#record(chatId, signal);
        if (record === undefined) return {};
        if (!record.open) return isAlone ? {} : { outcome: { record } };
      }
      await pause(attempt, signal);
      const body = await this.#openIfServed(chatId, beginsAgain ? undefined : position, request, signal);
      if (body === undefined) continue;
      return beginsAgain && record !== undefined ? { outcome: { record, body } } : { body };
    }
    return {};
  }

  /** Opens a stream; `undefined` also if the server refuses that, because the record says why. */
  async #openIfServed(...args: Parameters<FermataTransport<MESSAGE>['open']>) {
    try {
      return await this.open(...args);
    } catch (error) {
      if (error instanceof FermataError) return undefined;
      throw error;
    }
  }

  /** Reads the record, and tries again until it arrives; `undefined` if there is none, or nobody wants it any more. */
  async #record(chatId: string, signal: AbortSignal): Promise<ChatRecord | undefined> {
    const goesOn = () => !signal.aborted;
    try {
      return await (this.#observer?.record(goesOn) ?? readRecord(this.server, chatId, goesOn));
    } catch (error) {
      if (signal.aborted || (error instanceof FermataError && error.code === 'not_found')) return undefined;
      throw error;
    }
  }

  /** The fields of a post besides the messages. */
  #body(chatId: string): object {
    const tools = Object.entries(this.tools(chatId)).map(([name, { description, inputSchema }]) => [
      name,
      { ...(description !== undefined && { description }), parameters: inputSchema },
    ]);
    return {
      ...(tools.length > 0 && { tools: Object.fromEntries(tools) as object }),
      ...this.#options.body?.(chatId),
    };
  }

  /** The fields of a post that describe this client and its wishes. */
  #fermata(chosen: Chosen): object {
    const { client = AI_VERSION, hold, show, memory } = this.#options;
    // Memory is on by default. An undefined field is not part of the JSON.
    const isLeftOut = (typeof memory === 'function' ? memory() : memory) === false;
    return { client, hold, show, ...chosen, ...(isLeftOut && { memory: false }) };
  }

  /** The approvals that a new message may decide: those that the page shows as waiting. */
  #decides(messages: readonly MESSAGE[]): string[] {
    if (messages.at(-1)?.role !== 'user') return [];
    return shownApprovals(messages)
      .filter(({ toolCallId }) => this.#observer?.isDecided(toolCallId) !== true)
      .map(({ id }) => id);
  }

  /** The assistant and the model that the options choose now. */
  #chosen(chatId: string): Chosen {
    const [assistant, model] = [this.#options.assistant, this.#options.model].map((option) =>
      typeof option === 'function' ? option(chatId) : option,
    );
    return { ...(assistant !== undefined && { assistant }), ...(model !== undefined && { model }) };
  }
}

/** Returns `true` if it is unknown whether the server has taken a post: the connection to it, or that of a proxy before it, has failed. */
const isUnclear = (error: unknown): boolean =>
  error instanceof FermataError
    ? error.status === 502 || error.status === 504 || isInPlaceOfStream(error)
    : error instanceof TypeError;

/** Returns `true` if a post succeeded and its reply is not the stream: something before the server has answered, or changed the reply. */
const isInPlaceOfStream = (error: unknown): boolean => error instanceof FermataError && error.status < 300;

const closedStream = () =>
  new ReadableStream<Uint8Array>({
    start: (controller) => {
      controller.close();
    },
  });

function throwLost(): never {
  throw new FermataError(
    204,
    'stream_lost',
    'The answer went on while this page was not connected. Reload the page to see it.',
  );
}

/** Aborts what follows a signal. */
function follow(signal: AbortSignal | undefined, ...controllers: AbortController[]) {
  const abort = () => {
    for (const controller of controllers) controller.abort();
  };
  if (signal?.aborted === true) abort();
  signal?.addEventListener('abort', abort);
}

function plainHeaders(headers: Record<string, string> | Headers | undefined): Record<string, string> {
  return headers instanceof Headers ? Object.fromEntries(headers.entries()) : { ...headers };
}
