// A chat of the AI SDK that follows its server: loads, resumes, answers, runs the page's tools, knows other tabs.
//
// What is to be done is decided in `state.ts`; this does it.

import type { AbstractChat, ChatInit, UIMessage } from 'ai';
import type { Chosen } from './assistants.js';
import { askedCall, CallStatuses, type CallStatus } from './calls.js';
import type { Compaction, ContextUsage } from './context.js';
import { editedText } from './exact.js';
import { FollowedValue, type Followed } from './followed.js';
import { withDraft } from './outbox.js';
import { hasOpenCall, isOpen, isToolPart, lastStepOf, type ToolPart } from './parts.js';
import { readRecord, statusOf, type ChatRecord, type Pending } from './record.js';
import { runStatusIn, type RunStatus } from './runs.js';
import { FermataError, isSettledElsewhere, pause, retry } from './server.js';
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
import {
  compactChat,
  correctSummary,
  FollowedSummary,
  readSummary,
  type ChatSummary,
  type Summary,
} from './summaries.js';
import { ToolRunner } from './tools.js';
import { FermataTransport, type Connection, type FermataOptions, type Prepared } from './transport.js';

export interface ToolOutput {
  tool: string;
  toolCallId: string;
  state?: 'output-available' | 'output-error';
  output?: unknown;
  errorText?: string;
}

export interface ApprovalResponse {
  /** The approval's id. */
  id: string;
  approved: boolean;
  reason?: string;
  /** Which later calls this is for: `true` for the first of the call's scopes in this chat. */
  always?: boolean | Always;
  /**
   * The input to run instead of the model's. Numbers that JavaScript cannot read exactly stay as they were, if they are in their old
   * places; otherwise this rejects with a `RangeError`.
   */
  input?: unknown;
  /** The same as JSON text: the edited `inputText` of the call. */
  inputText?: string;
}

/** What "always" means. */
export interface Always {
  /** The id of one of the call's scopes; the first one if it is left out. */
  scope?: string;
  /** Whether it holds in this chat, or in all chats of the person. */
  for?: 'chat' | 'owner';
  /** How long it holds, such as `24h`; without an end if it is left out. */
  until?: string;
}

export interface ElicitationAnswer {
  elicitationId: string;
  action: 'accept' | 'decline' | 'cancel';
  content?: Record<string, unknown>;
}

/** A message that was not taken, and why. */
export interface GivenBack {
  message: UIMessage;
  error: FermataError;
}

/** What a chat of Fermata can do besides what the AI SDK's can. */
export interface FermataChat {
  /**
   * Shows the chat as the server has it, follows what goes on in it, and keeps doing so. Returns what ends
   * that. A chat that `isNew` has nothing to be loaded before its first message.
   */
  open: (options?: { isNew?: boolean }) => () => void;
  /**
   * Loads the chat, and follows its open run; a message that was not sent comes back after it. Done when that
   * run is over, or its stream has ended while it waits.
   */
  refresh: () => Promise<void>;
  addToolOutput: (output: ToolOutput) => Promise<void>;
  addToolApprovalResponse: (response: ApprovalResponse) => Promise<void>;
  answerElicitation: (answer: ElicitationAnswer) => Promise<void>;
  /** Ends the run, also one that only waits. Rejects if the server cannot be told; the run is then followed again. */
  stop: () => Promise<void>;
  readonly connection: Connection;
  /** The state of a call on the server, and what it waits for; `undefined` if no stream has said so yet. */
  callStatus: (toolCallId: string) => CallStatus | undefined;
  /** Calls a function whenever the status of a call changes; returns what ends that. */
  onCallStatus: (listener: () => void) => () => void;
  /**
   * How full the model's window is, as the record of the chat says, and then each step. `undefined` if the server does not
   * know, and after `compact`.
   */
  readonly contextUsage: Followed<ContextUsage | undefined>;
  /** What the run of the chat is doing; `undefined` as long as neither the record nor a stream has said so. */
  readonly runStatus: Followed<RunStatus | undefined>;
  /** The summary of earlier messages; it is loaded as long as somebody follows it. */
  readonly summary: Followed<ChatSummary | undefined>;
  /** The assistant and the model that the chat has chosen. */
  readonly chosen: Followed<Chosen>;
  /**
   * A message such as "yes" that the server refused because other calls wait for a decision by now; `undefined` once another message is sent.
   * It is no longer among the messages. The page puts its words back where they were written, and says why.
   */
  readonly givenBack: Followed<GivenBack | undefined>;
  /** Cancels one running call; the run goes on. Rejects if the call does not run. */
  cancelCall: (toolCallId: string) => Promise<void>;
  /**
   * Tells the chat's other pages that a person edits the input of a call that waits for a decision, or has stopped to. It is believed for 90
   * seconds, so say it again every 30 seconds while the person does. Rejects if the call waits no longer.
   */
  noteEditing: (approvalId: string, isEditing: boolean) => Promise<void>;
  /** Runs a call that has failed again, in a new answer. Rejects if it has not failed, or if another run is open. */
  retryCall: (toolCallId: string) => Promise<void>;
  /** Replaces the text of the summary. Rejects if the server refuses it. */
  correctSummary: (summary: Partial<Summary>) => Promise<void>;
  /** Has a summary written now; `instructions` say what it has to mind. Rejects if there is nothing to summarize. */
  compact: (instructions?: string) => Promise<void>;
}

/** The reply to an answer. */
interface Answered {
  calls: {
    toolCallId: string;
    state: CallStatus['state'];
    /** The calls of the step that still wait for a person. */
    waitingFor: string[];
    /** Whether the call runs only when those are decided. */
    gateClosed?: boolean;
    /** The other calls that were asked about and that the answer lets run. */
    alsoApproved?: string[];
  }[];
}

/** What the AI SDK's chat does by itself, and what only some versions have. */
interface Stock {
  addToolOutput: (output: ToolOutput) => PromiseLike<void>;
  addToolApprovalResponse?: (response: {
    id: string;
    approved: boolean;
    reason?: string;
  }) => PromiseLike<void>;
  stop: () => Promise<void>;
}

/** How long a stop waits for the end of the stream before it cuts it off, in milliseconds. */
const STOP_PATIENCE = 2000;

/** How often a server that does not answer is told to stop. */
const STOP_ATTEMPTS = 6;

const CHANNEL = 'fermata';

/** Follows one chat. */
export class ChatFollower {
  readonly #options: FermataOptions;
  readonly #id: string;
  readonly #transport: FermataTransport;
  readonly #tools: ToolRunner;
  readonly #calls = new CallStatuses();
  readonly #usage = new FollowedValue<ContextUsage | undefined>(undefined);
  readonly #run = new FollowedValue<RunStatus | undefined>(undefined);
  readonly #summary: FollowedSummary;
  readonly #chosen = new FollowedValue<Chosen>({});
  readonly #givenBack = new FollowedValue<GivenBack | undefined>(undefined);
  #chat!: AbstractChat<UIMessage>;
  #stock!: Stock;
  #onError: ((error: Error) => void) | undefined;
  #state: State = initialState;
  #connection: Connection = 'closed';
  #requests = 0;
  #prepared: Prepared | undefined;
  /** The request for a stream that has no answer yet. */
  #opening: { request: number; abort: AbortController } | undefined;
  /** Calls that this page has answered since it last posted, or was shown a record. */
  #answered = new Set<string>();
  /** How often an answer was sent or taken: a record that was asked for before may be without it. */
  #answers = 0;
  /** The record that has ended the stream that the AI SDK is about to end. */
  #outcome: ChatRecord | undefined;
  /** What waits for a state. */
  #watchers = new Set<() => void>();
  /** Ends what the first viewer has begun. */
  #watching: (() => void) | undefined;
  #tabs: BroadcastChannel | undefined;
  /** Done when what is asked of older messages is shown. */
  #settled: Promise<void> = Promise.resolve();

  constructor(options: FermataOptions, id: string) {
    this.#options = options;
    this.#id = id;
    this.#transport = new FermataTransport(
      { ...options, show: options.show ?? 'all' },
      {
        begin: () => ++this.#requests,
        on: (request, what) => {
          if (what.type === 'sent') this.#givenBack.set(undefined);
          if (what.type === 'ended' && what.outcome !== undefined && this.#isNewest(request)) {
            this.#outcome = what.outcome.record;
            this.#learn(what.outcome.record);
          }
          this.#dispatch({ type: 'request', request, what });
          // The AI SDK has read the last chunk, and does what it does at an end before anything else.
          if (what.type === 'ended' || what.type === 'refused') this.#settleSoon();
          if (what.type === 'ended') {
            this.#summary.refreshSoon(this.#chat.messages.length);
            this.#settleOlder();
          }
        },
        onChosen: (chosen) => {
          this.#chosen.set({ ...this.#chosen.get(), ...chosen });
        },
        isDecided: (toolCallId) => {
          const status = this.#calls.get(toolCallId);
          return status !== undefined && status.state !== 'awaiting_approval';
        },
        record: (goesOn) => this.#record(goesOn),
        prepared: () => {
          const prepared = this.#prepared;
          this.#prepared = undefined;
          return prepared;
        },
      },
    );
    this.#summary = new FollowedSummary(() => readSummary(this.#transport.server, id));
    this.#tools = new ToolRunner(this.#transport.server.api, id);
  }

  // === attaching ===

  /** What a `Chat` is constructed with. */
  init<MESSAGE extends UIMessage>(given: ChatInit<MESSAGE>): Partial<ChatInit<MESSAGE>> {
    this.#onError = given.onError;
    return {
      transport: this.#transport,
      sendAutomaticallyWhen: ({ messages }) => this.#mustPost(messages),
      onToolCall: ({ toolCall }) => {
        void given.onToolCall?.({ toolCall });
        const { toolName, toolCallId, input } = toolCall;
        const { phase } = this.#state;
        this.#runTool(toolName, toolCallId, input, !(phase.name === 'reading' && phase.isFresh));
      },
      onData: (part) => {
        const { type, data } = part as { type: string; data: unknown };
        if (type === 'data-call') {
          const { toolCallId, ...status } = data as CallStatus & { toolCallId: string };
          this.#calls.set(toolCallId, status);
          // A call that was approved in words has its outcome in an earlier message, which no stream changes.
          if (['success', 'error', 'cancelled'].includes(status.state)) this.#settleOlder();
        } else if (type === 'data-run') {
          this.#run.set(data as RunStatus);
        } else if (type === 'data-context') {
          this.#usage.set(data as ContextUsage);
        } else {
          if (type === 'data-compaction' && (data as Compaction).state === 'done')
            this.#summary.refresh(this.#chat.messages.length);
          given.onData?.(part);
        }
      },
      onError: (error) => {
        this.#dispatch({ type: 'failed', error });
      },
      ...(given.onFinish && {
        onFinish: (finish) => {
          const record = this.#outcome;
          this.#outcome = undefined;
          // Its run goes on, or another one has taken its place.
          if (record?.open === true) return;
          given.onFinish?.(
            record === undefined ? finish : { ...finish, message: stored(record, finish.message) },
          );
        },
      }),
    };
  }

  attach<CHAT extends object>(chat: CHAT): CHAT & FermataChat {
    this.#chat = chat as unknown as AbstractChat<UIMessage>;
    const stock = chat as unknown as Stock;
    this.#stock = {
      addToolOutput: stock.addToolOutput,
      stop: stock.stop,
      ...(stock.addToolApprovalResponse && { addToolApprovalResponse: stock.addToolApprovalResponse }),
    };
    const more: Omit<FermataChat, 'connection'> = {
      open: (options) => this.#open(options?.isNew === true),
      refresh: () => this.#refresh(),
      addToolOutput: (output) => this.#addToolOutput(output),
      addToolApprovalResponse: (response) => this.#addToolApprovalResponse(response),
      answerElicitation: (answer) => this.#answer({ ...answer }).then(() => undefined),
      stop: () => this.#stop(),
      callStatus: this.#calls.get,
      onCallStatus: this.#calls.subscribe,
      contextUsage: this.#usage,
      runStatus: this.#run,
      cancelCall: (toolCallId) => this.#cancelCall(toolCallId),
      noteEditing: (approvalId, isEditing) => this.#noteEditing(approvalId, isEditing),
      retryCall: (toolCallId) => this.#retryCall(toolCallId),
      summary: this.#summary,
      chosen: this.#chosen,
      givenBack: this.#givenBack,
      correctSummary: (summary) =>
        this.#summarized(correctSummary(this.#transport.server, this.#id, summary)),
      compact: async (instructions) => {
        await this.#summarized(compactChat(this.#transport.server, this.#id, instructions));
        // It was about a request that is not sent again.
        this.#usage.set(undefined);
      },
    };
    const connection = { get: () => this.#connection };
    // The AI SDK has an older name for one of them.
    Object.assign(chat, more, { addToolResult: more.addToolOutput });
    return Object.defineProperty(chat, 'connection', connection) as CHAT & FermataChat;
  }

  // === events and actions ===

  #dispatch(event: Event) {
    const { status, messages } = this.#chat;
    const context = { status, messages, nextRequest: () => ++this.#requests };
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
        this.#chat.clearError();
        this.#chat.messages = action.record.messages;
        this.#answered.clear();
        for (const { kind, tool, toolCallId, input } of action.record.pending)
          if (kind === 'output') this.#runTool(tool, toolCallId, input, true);
        break;
      case 'showDraft':
        this.#chat.messages = withDraft(this.#chat.messages, action.draft);
        break;
      case 'giveBack': {
        const { message, error } = action;
        this.#chat.messages = this.#chat.messages.filter(({ id }) => id !== message.id);
        this.#givenBack.set({ message, error });
        break;
      }
      case 'fail':
        // The AI SDK shows an error of its own only: it asks for a stream, and gets the error.
        this.#prepared = { type: 'error', error: action.error };
        void this.#chat.resumeStream().finally(() => {
          this.#dispatch({ type: 'shown' });
        });
        break;
      case 'tellPage':
        this.#onError?.(action.error);
        break;
      case 'abort':
        this.#transport.abortReading(action.request);
        break;
      case 'stopTools':
        this.#tools.stop();
        this.#answered.clear();
        break;
      case 'tellTabs':
        this.#tellTabs();
        break;
      case 'settleOlder':
        // Nothing more is read of a run that the post has superseded.
        this.#settleOlder({ isSuperseded: this.#state.streams.length > 1 });
        break;
      default:
        action satisfies never;
    }
  }

  #isNewest(request: number) {
    const { phase } = this.#state;
    return 'request' in phase && phase.request === request;
  }

  #isBusy() {
    return isBusy(this.#state, this.#chat.status);
  }

  /** The AI SDK does what it does at the end of a stream before anything else happens. */
  #settleSoon() {
    setTimeout(() => {
      this.#dispatch({ type: 'settled' });
    });
  }

  /** Waits until something is so, at most for so many milliseconds. */
  #until(isSo: () => boolean, longest = Infinity): Promise<void> {
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
      this.#options.onConnection?.(connection, this.#id);
    } catch (error) {
      // The page's own mistake does not stop its chat.
      console.error(error);
    }
  }

  // === loading and following ===

  #open(isNew: boolean): () => void {
    if (this.#watching === undefined) this.#watching = this.#watch();
    this.#dispatch({ type: 'opened', isNew });
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.#dispatch({ type: 'left' });
      if (!isLeft(this.#state)) return;
      this.#watching?.();
      this.#watching = undefined;
    };
  }

  /** Learns from other tabs of this browser when something begins that this one does not follow yet. */
  #watch(): () => void {
    const page: Partial<typeof globalThis> = globalThis;
    const onVisible = () => {
      // After an error the page may show words that the server does not have yet.
      if (document.visibilityState === 'visible' && this.#chat.status === 'ready')
        this.#dispatch({ type: 'refresh' });
    };
    const tabs = page.BroadcastChannel && new BroadcastChannel(CHANNEL);
    tabs?.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      // What is being read may be what the other tab has just left behind.
      if (data === this.#topic) this.#dispatch({ type: 'refresh' });
    });
    page.document?.addEventListener('visibilitychange', onVisible);
    this.#tabs = tabs;
    return () => {
      page.document?.removeEventListener('visibilitychange', onVisible);
      tabs?.close();
      this.#tabs = undefined;
    };
  }

  get #topic() {
    return `${this.#transport.server.api} ${this.#id}`;
  }

  #tellTabs() {
    this.#tabs?.postMessage(this.#topic);
  }

  async #refresh(): Promise<void> {
    // Even if that sets words aside that were not sent.
    if (!this.#isBusy()) this.#chat.clearError();
    this.#dispatch({ type: 'refresh' });
    const isDone = () => !this.#state.isStale && this.#state.phase.name === 'idle' && !this.#isBusy();
    await this.#until(() => isLeft(this.#state) || isDone());
  }

  async #load(request: number, attempt: number): Promise<void> {
    if (attempt > 0) await pause(attempt);
    try {
      const record = await this.#record(() => {
        this.#dispatch({ type: 'request', request, what: { type: 'retrying' } });
        return this.#isNewest(request);
      });
      this.#transport.known.add(this.#id);
      // A message that was sent meanwhile may have brought newer news.
      if (this.#isNewest(request)) this.#learn(record);
      this.#dispatch({ type: 'loaded', request, record });
    } catch (error) {
      this.#notLoaded(request, error);
    }
  }

  /** Takes over what a record says besides its messages. */
  #learn(record: ChatRecord) {
    const { assistant, model, messages, pending, context } = record;
    this.#chosen.set({
      ...(assistant !== undefined && { assistant }),
      ...(model !== undefined && { model }),
    });
    this.#usage.set(context);
    this.#run.set(runStatusIn(record));
    for (const waiting of pending) this.#calls.set(waiting.toolCallId, statusOf(waiting));
    this.#summary.refresh(messages.length);
  }

  #notLoaded(request: number, error: unknown) {
    if (error instanceof FermataError && error.code === 'not_found') this.#transport.known.delete(this.#id);
    this.#dispatch({ type: 'notLoaded', request, error: asError(error) });
  }

  /** Reads the record, with all answers that this page has given. */
  async #record(goesOn?: (attempt: number) => boolean): Promise<ChatRecord> {
    for (;;) {
      const before = this.#answers;
      const record = await readRecord(this.#transport.server, this.#id, goesOn);
      if (this.#answers === before) return record;
    }
  }

  async #openStream(request: number, opened?: ReadableStream<Uint8Array>): Promise<void> {
    const abort = new AbortController();
    this.#opening = { request, abort };
    try {
      // The AI SDK does what it does at the end of the stream before.
      if (opened !== undefined) await new Promise((resolve) => setTimeout(resolve));
      const body = opened ?? (await this.#transport.open(this.#id, undefined, request, abort.signal));
      const { phase } = this.#state;
      if (phase.name !== 'following' || phase.request !== request) {
        void body?.cancel().catch(() => undefined);
      } else if (body === undefined) {
        // The run came to its end between the two requests, or its stream ended while it waits.
        await pause(0, abort.signal);
        this.#dispatch({ type: 'over', request });
      } else {
        this.#opening = undefined;
        // Only now, so that nothing vanishes while the server is asked.
        this.#chat.clearError();
        this.#chat.messages = phase.record.messages;
        this.#prepared = { type: 'stream', request, abort, body };
        await this.#chat.resumeStream();
        this.#settleSoon();
      }
    } catch (error) {
      this.#notLoaded(request, error);
    }
  }

  /**
   * Shows what became of messages that a new one has left behind, if one of them was superseded or has a call that is open: their own stream
   * has ended without a word of it. If the record cannot be had now, the next loading has it.
   *
   * One look follows another. Otherwise an older record could take the place of a newer one, and before the first one comes, the page may
   * show a call as over that is not: assistant-ui cancels open calls by itself when a message is sent.
   */
  #settleOlder({ isSuperseded = false } = {}) {
    const settle = async () => {
      if (!isSuperseded && !this.#chat.messages.slice(0, -1).some(hasOpenCall)) return;
      const { messages } = await this.#record();
      const stored = new Map(messages.map((message) => [message.id, message]));
      this.#chat.messages = this.#chat.messages.map((message, index, { length }) =>
        index < length - 1 ? (stored.get(message.id) ?? message) : message,
      );
    };
    this.#settled = this.#settled.then(settle).catch(() => undefined);
  }

  /** Shows a summary that the server has just saved, also in other tabs. */
  async #summarized(saved: Promise<ChatSummary>): Promise<void> {
    this.#summary.set(await saved);
    this.#tellTabs();
  }

  // === answers ===

  /** Whether an answer that this page gave goes on only if the chat is posted again. */
  #mustPost(messages: UIMessage[]): boolean {
    const { phase, isStale } = this.#state;
    // What is asked for or read brings what follows, too.
    if (phase.name !== 'idle' || isStale || isLeft(this.#state)) return false;
    const calls = lastStepOf(messages.at(-1));
    return calls.some((part) => this.#answered.has(part.toolCallId)) && !calls.some(isOpen);
  }

  #part(is: (part: ToolPart) => boolean): ToolPart | undefined {
    return this.#chat.messages
      .flatMap((message) => message.parts as object[])
      .filter(isToolPart)
      .findLast(is);
  }

  /** Delivers an answer. */
  async #answer(fields: object, goesOn?: () => boolean): Promise<Answered> {
    const { server } = this.#transport;
    const body = JSON.stringify({ chatId: this.#id, ...fields });
    // Below the chat endpoint, so that one path prefix is enough for a proxy.
    const send = () => server.json<Answered>(`${server.api}/tool-result`, { method: 'POST', body });
    this.#answers++;
    try {
      const answered = await retry(send, goesOn).finally(() => this.#answers++);
      if (!this.#isBusy()) {
        // No stream says so.
        for (const { toolCallId, state, gateClosed } of answered.calls)
          this.#calls.set(toolCallId, { state, ...(gateClosed === true && { waitsFor: 'gate' }) });
        this.#tellTabs();
        // What the AI SDK would go on with is no longer the last message.
        if (this.#chat.messages.at(-1)?.role === 'user') void this.#refresh();
      }
      return answered;
    } catch (error) {
      if (isSettledElsewhere(error) && !this.#isBusy()) void this.#refresh();
      throw error;
    }
  }

  async #addToolOutput(output: ToolOutput, goesOn?: () => boolean): Promise<void> {
    const { toolCallId, state, errorText } = output;
    const isError = state === 'output-error';
    const answer = isError ? { errorText: errorText ?? '' } : { output: output.output ?? null };
    await this.#answer({ toolCallId, ...answer }, goesOn);
    this.#tools.forget(toolCallId);
    const part = this.#part((part) => part.toolCallId === toolCallId);
    if (part === undefined || !isOpen(part)) return;
    this.#answered.add(toolCallId);
    await this.#stock.addToolOutput(isError ? output : { ...output, output: output.output ?? null });
  }

  async #addToolApprovalResponse(response: ApprovalResponse): Promise<void> {
    const { id, approved, reason, always, input } = response;
    const inputText =
      input === undefined ? response.inputText : editedText(await this.#inputTextOf(id, input), input);
    const { calls } = await this.#answer({ approvalId: id, approved, reason, always, inputText });
    if (this.#stock.addToolApprovalResponse === undefined) {
      // Version 5 has no state for a call that was approved; what follows is in the stream.
      if (!this.#isBusy()) this.#dispatch({ type: 'refresh' });
      return;
    }
    const waiting = calls.flatMap((call) => call.waitingFor);
    const alsoApproved = calls.flatMap((call) => call.alsoApproved ?? []);
    const part = this.#part((part) => part.approval?.id === id);
    if (part !== undefined && !approved && part.state === 'approval-responded') {
      // An approval is taken back. The AI SDK leaves a part alone that has its response.
      if (!this.#isBusy()) this.#dispatch({ type: 'refresh' });
      return;
    }
    for (const other of lastStepOf(this.#chat.messages.at(-1))) {
      if (other.state !== 'approval-requested' || other.approval === undefined) continue;
      const isThis = other.approval.id === id;
      if (!isThis && !alsoApproved.includes(other.toolCallId)) continue;
      this.#answered.add(other.toolCallId);
      const mine = { approved, ...(reason !== undefined && { reason }) };
      await this.#stock.addToolApprovalResponse({
        id: other.approval.id,
        ...(isThis ? mine : { approved: true }),
      });
    }
    const isBehind = lastStepOf(this.#chat.messages.at(-1)).some(
      (other) => other.state === 'approval-requested' && !waiting.includes(other.toolCallId),
    );
    // Somebody else has decided about what this page shows as waiting.
    if (isBehind && !this.#isBusy()) this.#dispatch({ type: 'refresh' });
  }

  /** The input of a call that waits for a decision, as it is on the server. Of a call that waits no longer the answer will be refused. */
  async #inputTextOf(approvalId: string, edited: unknown): Promise<string> {
    const part = this.#part((part) => part.approval?.id === approvalId);
    const known = part && (askedCall(part) ?? this.#calls.get(part.toolCallId))?.inputText;
    if (known !== undefined) return known;
    const { server } = this.#transport;
    const url = server.chatUrl(this.#id, '/pending');
    const { pending } = await retry(() => server.json<{ pending: Pending[] }>(url));
    return pending.find((asked) => asked.approvalId === approvalId)?.inputText ?? JSON.stringify(edited);
  }

  async #cancelCall(toolCallId: string): Promise<void> {
    const { server } = this.#transport;
    const url = server.chatUrl(this.#id, `/calls/${encodeURIComponent(toolCallId)}/cancel`);
    await retry(() => server.json(url, { method: 'POST' }));
    if (!this.#isBusy()) void this.#refresh();
    this.#tellTabs();
  }

  async #noteEditing(approvalId: string, isEditing: boolean): Promise<void> {
    const { server } = this.#transport;
    const body = JSON.stringify({ chatId: this.#id, approvalId, editing: isEditing });
    await server.json(`${server.api}/tool-result`, { method: 'POST', body });
  }

  async #retryCall(toolCallId: string): Promise<void> {
    await this.#transport.retryCall(this.#id, toolCallId);
    // The run that begins with the call is followed like one of another tab.
    void this.#refresh();
    this.#tellTabs();
  }

  async #stop(): Promise<void> {
    const { server } = this.#transport;
    const stop = () => server.json(server.chatUrl(this.#id, '/stop'), { method: 'POST' });
    try {
      await retry(stop, (attempt) => {
        // The person is not made to wait for a server that is away.
        void this.#giveUp();
        return attempt < STOP_ATTEMPTS;
      });
      this.#tools.stop();
      // The server ends the stream; what it says at the end is worth having.
      await this.#until(() => this.#state.streams.length === 0, STOP_PATIENCE);
      const isOverdue = this.#state.streams.length > 0;
      // A message may have been on its way when the first stop came in, or may never arrive.
      if (await this.#giveUp()) await retry(stop);
      if (isOverdue || this.#part(isOpen)) await this.#refresh();
      this.#tellTabs();
    } catch (error) {
      void this.#giveUp();
      this.#dispatch({ type: 'stopUnheard' });
      throw error;
    }
  }

  /** Reads and sends nothing more; whether a message was on its way, which stays on the page. */
  async #giveUp(): Promise<boolean> {
    const wasSending = this.#transport.abortSending();
    for (const request of this.#state.streams) this.#transport.abortReading(request);
    await this.#stock.stop();
    return wasSending;
  }

  // === the page's tools ===

  #runTool(name: string, toolCallId: string, input: unknown, isReplay: boolean) {
    const tool = this.#transport.tools(this.#id)[name];
    if (tool?.execute === undefined) return;
    const { server } = this.#transport;
    void this.#tools.run({
      toolCallId,
      tool,
      input,
      isReplay,
      isPending: async () => {
        const url = server.chatUrl(this.#id, '/pending');
        const { pending } = await retry(() => server.json<{ pending: Pending[] }>(url));
        return pending.some((waiting) => waiting.kind === 'output' && waiting.toolCallId === toolCallId);
      },
      deliver: (outcome, goesOn) => this.#addToolOutput({ tool: name, toolCallId, ...outcome }, goesOn),
    });
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

/** The message as the record has it; the page may have read less of it, or nothing. */
function stored<MESSAGE extends UIMessage>({ messages }: ChatRecord, message: MESSAGE): MESSAGE {
  const answers = messages.filter(({ role }) => role === 'assistant') as MESSAGE[];
  return answers.find(({ id }) => id === message.id) ?? answers.at(-1) ?? message;
}
