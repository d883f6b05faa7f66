// Follows one chat: `state.ts` decides, and this acts. It loads the record, and has the AI SDK read the stream of the open run.
//
// The state of the chat is here and nowhere else. Every change of it is an event for `dispatch`.

import type { AbstractChat, UIMessage } from 'ai';
import { KnownOfChat } from './known.js';
import { isDelivered, withDraft } from './outbox.js';
import { RecordReader, type ChatRecord } from './record.js';
import { FermataError, pause } from './server.js';
import {
  connectionOf,
  initialState,
  isBusy,
  isLeft,
  reduce,
  type Action,
  type Event,
  type State,
} from './state.js';
import { Tabs } from './tabs.js';
import { ToolRunner } from './tools.js';
import {
  FermataTransport,
  type Connection,
  type FermataOptions,
  type Prepared,
  type RequestEvent,
} from './transport.js';

interface Handlers {
  /** Runs a call that the record shows as waiting for this page. */
  runTool: (name: string, toolCallId: string, input: unknown) => void;
  onError: ((error: Error) => void) | undefined;
}

export class ChatFollower {
  readonly id: string;
  readonly transport: FermataTransport;
  readonly record: RecordReader;
  readonly known: KnownOfChat;
  readonly tools: ToolRunner;
  readonly tabs: Tabs;
  /** The AI SDK's chat, once it is constructed. */
  chat!: AbstractChat<UIMessage>;
  /** The record that has ended the stream that the AI SDK is about to end. */
  outcome: ChatRecord | undefined;
  /** Calls that this page has answered since it last posted, or was shown a record. */
  readonly answered = new Set<string>();
  readonly #options: FermataOptions;
  readonly #handlers: Handlers;
  #state: State = initialState;
  #connection: Connection = 'closed';
  #requests = 0;
  #prepared: Prepared | undefined;
  /** The request for a stream that has no answer yet. */
  #opening: { request: number; abort: AbortController } | undefined;
  /** The listeners that wait for a state. */
  #watchers = new Set<() => void>();
  /** Ends what the first viewer has begun. */
  #watching: (() => void) | undefined;

  constructor(options: FermataOptions, id: string, handlers: Handlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.id = id;
    this.transport = new FermataTransport(
      { ...options, show: options.show ?? 'all' },
      {
        begin: () => ++this.#requests,
        on: (request, what) => {
          this.#noteUnsent(request, what);
          if (what.type === 'ended' && what.outcome !== undefined && this.#isNewest(request)) {
            this.outcome = what.outcome.record;
            this.known.learn(what.outcome.record);
          }
          this.dispatch({ type: 'request', request, what });
          // The AI SDK has read the last chunk, and does what it does at an end before anything else.
          if (what.type === 'ended' || what.type === 'refused') this.#settleSoon();
          if (what.type === 'ended') {
            this.known.summary.refreshSoon(this.chat.messages.length);
            this.record.settleOlder(this.chat);
          }
        },
        onChosen: (chosen) => {
          this.known.chosen.set({ ...this.known.chosen.get(), ...chosen });
        },
        isDecided: (toolCallId) => {
          const status = this.known.calls.get(toolCallId);
          return status !== undefined && status.state !== 'awaiting_approval';
        },
        record: (goesOn) => this.record.read(goesOn),
        prepared: () => {
          const prepared = this.#prepared;
          this.#prepared = undefined;
          return prepared;
        },
      },
    );
    const { server } = this.transport;
    this.record = new RecordReader(server, id);
    this.known = new KnownOfChat(server, id);
    this.tools = new ToolRunner(server.api, id);
    this.tabs = new Tabs(server.api, id);
  }

  // === events and actions ===

  dispatch(event: Event) {
    const { status, messages } = this.chat;
    const { givesBack = false } = this.#options;
    const context = { status, messages, nextRequest: () => ++this.#requests, givesBack };
    const [state, actions] = reduce(this.#state, event, context);
    this.#state = state;
    if (this.#opening !== undefined && !this.#isNewest(this.#opening.request)) {
      this.#opening.abort.abort();
      this.#opening = undefined;
    }
    this.#tellConnection();
    for (const action of actions) this.#perform(action);
    for (const watcher of [...this.#watchers]) watcher();
  }

  #perform(action: Action) {
    switch (action.type) {
      case 'load':
        void this.#load(action.request, action.attempt);
        break;
      case 'openStream':
        void this.#openStream(action.request, action.body);
        break;
      case 'discard':
        void action.body.cancel().catch(() => undefined);
        break;
      case 'show':
        this.chat.clearError();
        this.chat.messages = action.record.messages;
        this.#noteTaken(action.record);
        this.answered.clear();
        for (const { kind, tool, toolCallId, input } of action.record.pending)
          if (kind === 'output') this.#handlers.runTool(tool, toolCallId, input);
        break;
      case 'showDraft':
        this.chat.messages = withDraft(this.chat.messages, action.draft);
        break;
      case 'giveBack': {
        const { message, error } = action;
        this.chat.messages = this.chat.messages.filter(({ id }) => id !== message.id);
        this.known.unsent.set(undefined);
        this.known.givenBack.set({ message, error });
        break;
      }
      case 'fail':
        // The AI SDK shows an error of its own only: it asks for a stream, and gets the error.
        this.#prepared = { type: 'error', error: action.error };
        void this.chat.resumeStream().finally(() => {
          this.dispatch({ type: 'shown' });
        });
        break;
      case 'tellPage':
        this.report(action.error);
        break;
      case 'abort':
        this.transport.abortReading(action.request);
        break;
      case 'stopTools':
        this.tools.stop();
        this.answered.clear();
        break;
      case 'tellTabs':
        this.tabs.tell();
        break;
      case 'settleOlder':
        // Nothing more is read of a run that the post has superseded.
        this.record.settleOlder(this.chat, { isSuperseded: this.#state.streams.length > 1 });
        break;
      default:
        action satisfies never;
    }
  }

  get state(): State {
    return this.#state;
  }

  get connection(): Connection {
    return this.#connection;
  }

  /** Notes what the person has said and the server has not. */
  #noteUnsent(request: number, what: RequestEvent) {
    const { unsent, givenBack } = this.known;
    switch (what.type) {
      case 'sent':
        givenBack.set(undefined);
        unsent.set(what.message && { message: what.message, isWaiting: false });
        break;
      case 'retrying':
      case 'refused': {
        const { phase } = this.#state;
        const message = unsent.get()?.message;
        const isOfMessage = phase.name === 'sending' && phase.request === request;
        if (message && isOfMessage) unsent.set({ message, isWaiting: what.type === 'retrying' });
        break;
      }
      case 'accepted':
        unsent.set(undefined);
        break;
      case 'resumed':
      case 'broke':
      case 'reconnected':
      case 'ended':
        break;
      default:
        what satisfies never;
    }
  }

  /** The server has the messages of a record. */
  #noteTaken({ messages }: ChatRecord) {
    this.transport.noteTaken(messages);
    const message = this.known.unsent.get()?.message;
    if (message && isDelivered(message, messages)) this.known.unsent.set(undefined);
  }

  /** Tells the page of an error that the AI SDK does not show. */
  report(error: Error) {
    this.#handlers.onError?.(error);
  }

  #isNewest(request: number) {
    const { phase } = this.#state;
    return 'request' in phase && phase.request === request;
  }

  isBusy(): boolean {
    return isBusy(this.#state, this.chat.status);
  }

  /** The AI SDK does what it does at the end of a stream before anything else happens. */
  #settleSoon() {
    setTimeout(() => {
      this.dispatch({ type: 'settled' });
    });
  }

  /** Waits until something is so, at most for so many milliseconds. */
  until(isSo: () => boolean, longest = Infinity): Promise<void> {
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const finish = () => {
        clearTimeout(timer);
        this.#watchers.delete(look);
        resolve();
      };
      const look = () => {
        if (isSo()) finish();
      };
      if (longest < Infinity) timer = setTimeout(finish, longest);
      this.#watchers.add(look);
      look();
    });
  }

  #tellConnection() {
    const connection = connectionOf(this.#state);
    if (this.#connection === connection) return;
    this.#connection = connection;
    try {
      this.#options.onConnection?.(connection, this.id);
    } catch (error) {
      // The page's own mistake does not stop its chat.
      console.error(error);
    }
  }

  // === viewers ===

  open(isNew: boolean): () => void {
    this.#watching ??= this.tabs.watch(
      // What is being read may be what the other tab has just left behind.
      () => {
        this.dispatch({ type: 'refresh' });
      },
      () => {
        // After an error the page may show words that the server does not have yet.
        if (this.chat.status === 'ready') this.dispatch({ type: 'refresh' });
      },
    );
    this.dispatch({ type: 'opened', isNew });
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.dispatch({ type: 'left' });
      if (!isLeft(this.#state)) return;
      this.#watching?.();
      this.#watching = undefined;
    };
  }

  async refresh(): Promise<void> {
    // Even if that sets words aside that were not sent.
    if (!this.isBusy()) this.chat.clearError();
    this.dispatch({ type: 'refresh' });
    const isDone = () => !this.#state.isStale && this.#state.phase.name === 'idle' && !this.isBusy();
    await this.until(() => isLeft(this.#state) || isDone());
  }

  // === loading and following ===

  async #load(request: number, attempt: number): Promise<void> {
    if (attempt > 0) await pause(attempt);
    try {
      const record = await this.record.read(() => {
        this.dispatch({ type: 'request', request, what: { type: 'retrying' } });
        return this.#isNewest(request);
      });
      this.transport.known.add(this.id);
      // A message that was sent meanwhile may have brought newer news.
      if (this.#isNewest(request)) this.known.learn(record);
      this.dispatch({ type: 'loaded', request, record });
    } catch (error) {
      this.#notLoaded(request, error);
    }
  }

  #notLoaded(request: number, error: unknown) {
    if (error instanceof FermataError && error.code === 'not_found') this.transport.known.delete(this.id);
    this.dispatch({
      type: 'notLoaded',
      request,
      error: error instanceof Error ? error : new Error(String(error)),
    });
  }

  async #openStream(request: number, opened?: ReadableStream<Uint8Array>): Promise<void> {
    const abort = new AbortController();
    this.#opening = { request, abort };
    try {
      // The AI SDK does what it does at the end of the stream before.
      if (opened !== undefined) await new Promise((resolve) => setTimeout(resolve));
      const body = opened ?? (await this.transport.open(this.id, undefined, request, abort.signal));
      const { phase } = this.#state;
      if (phase.name !== 'following' || phase.request !== request) {
        void body?.cancel().catch(() => undefined);
      } else if (body === undefined) {
        // The run came to its end between the two requests, or its stream ended while it waits.
        await pause(0, abort.signal);
        this.dispatch({ type: 'over', request });
      } else {
        this.#opening = undefined;
        // Only now, so that nothing vanishes while the server is asked.
        this.chat.clearError();
        this.chat.messages = phase.record.messages;
        this.#noteTaken(phase.record);
        this.#prepared = { type: 'stream', request, abort, body };
        await this.chat.resumeStream();
        this.#settleSoon();
      }
    } catch (error) {
      this.#notLoaded(request, error);
    }
  }
}
