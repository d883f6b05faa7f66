// Fermata's helper for AI SDK chats. Copy this file into your project; it needs nothing but `ai`, version 5,
// 6 or 7.
//
//   import { Chat, useChat } from '@ai-sdk/react';       // or the `Chat` of @ai-sdk/vue, @ai-sdk/svelte, …
//   import { fermata } from './fermata';
//
//   const server = fermata({
//     client: 7,                                          // the major version of `ai`
//     tools: {
//       get_location: {
//         description: 'Where this browser is.',
//         inputSchema: { type: 'object', properties: {} },
//         repeatable: true,                               // nothing happens by asking twice
//         execute: () => whereAmI(),
//       },
//     },
//   });
//
//   const chat = useMemo(() => server.chat(Chat, { id }), [id]);
//   useEffect(() => chat.open(), [chat]);                 // loads, resumes, follows other tabs
//   const { messages, sendMessage, status } = useChat({ chat });
//
//   chat.addToolApprovalResponse({ id: part.approval.id, approved: true })
//   chat.addToolApprovalResponse({ id: part.approval.id, approved: true, always: true })  // for this tool in this chat
//   chat.addToolApprovalResponse({ id: part.approval.id, approved: true, input: edited }) // runs with the edited input
//   chat.addToolApprovalResponse({ id: part.approval.id, approved: false, reason: 'not today' })
//   chat.addToolOutput({ tool: 'ask_user', toolCallId: part.toolCallId, output: { name: 'Ann' } })
//   chat.answerElicitation({ elicitationId: part.data.elicitationId, action: 'accept', content: { name: 'Ann' } })
//   chat.stop()                                           // ends the run, not only the connection
//
// What you can rely on:
// - An answer reaches the server at once, and is kept there. While the stream is open, generation goes on in
//   it; after that, the page posts the chat again, as the AI SDK does, and the same message goes on.
// - A tool with `execute` runs once for a call: in one tab, and not again when the stream is replayed. If the
//   page goes away while it runs, it runs again only where it is `repeatable`; otherwise the call fails, with
//   words that say why.
// - A connection that breaks, or falls silent, is taken up where it ended; the page sees one stream.
// - Tabs that show the same chat show the same thing.
// - A post carries what is new; the server has the rest.
// - What the server refuses is a `FermataError` whose message can be shown: a refused answer throws it, a
//   refused message stays, with it as the chat's `error`. Where a call was settled elsewhere
//   (`already_answered`, `gone`), the chat is loaded again, too.
//
// Web Locks, BroadcastChannel and localStorage are used where the page has them; without them a tool still
// runs once per page.

import { DefaultChatTransport, type AbstractChat, type ChatInit, type UIMessage } from 'ai';

// === what you give ===

/** A tool that this page runs. */
export interface BrowserTool {
  /** What the model is told about it. */
  description?: string;
  /** JSON Schema of its input. */
  inputSchema: object;
  /** Runs a call. What it throws is the call's error. Left out, the page answers by `addToolOutput`. */
  execute?: (input: unknown, call: { toolCallId: string; signal: AbortSignal }) => unknown;
  /** Whether it may run again, should the page go away while it runs. */
  repeatable?: boolean;
}

export interface FermataOptions {
  /** The path or URL of the chat endpoint; `/api/chat` by default. */
  api?: string;
  /** The major version of `ai`; 7 by default. */
  client?: 5 | 6 | 7;
  /** How long a stream stays open while calls wait, such as `30s`; the server's own setting by default. */
  hold?: string;
  /** Sent with every request, such as `authorization`. */
  headers?: Record<string, string> | (() => Record<string, string>);
  /** More fields of every post: `system`, `toolChoice`, `callSettings`, … */
  body?: (chatId: string) => object;
  /** The page's tools, by name. */
  tools?: Record<string, BrowserTool> | ((chatId: string) => Record<string, BrowserTool>);
  /** Hears how the connection of a chat is. */
  onConnection?: (connection: Connection, chatId: string) => void;
  /**
   * How long a stream may be silent before it counts as broken, in milliseconds; the server says something
   * every ten seconds.
   */
  silence?: number;
  fetch?: typeof fetch;
}

/** `closed`: no stream is read. `open`: one is. `reconnecting`: it broke, and is being taken up again. */
export type Connection = 'closed' | 'open' | 'reconnecting';

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
  /** Also for later calls of this tool in this chat. */
  always?: boolean;
  /** The input to run instead of the model's. */
  input?: unknown;
}

export interface ElicitationAnswer {
  elicitationId: string;
  action: 'accept' | 'decline' | 'cancel';
  content?: Record<string, unknown>;
}

// === what you get ===

/** What a chat of Fermata can do besides what the AI SDK's can. */
export interface FermataChat {
  /**
   * Shows the chat as the server has it, follows what goes on in it, and keeps doing so. Returns what ends
   * that. A chat that `isNew` has nothing to be loaded before its first message.
   */
  open(options?: { isNew?: boolean }): () => void;
  /**
   * Loads the chat, and follows its open run; words that were not sent come back after it. Done when that run
   * is over, or was let go.
   */
  refresh(): Promise<void>;
  addToolOutput(output: ToolOutput): Promise<void>;
  addToolApprovalResponse(response: ApprovalResponse): Promise<void>;
  answerElicitation(answer: ElicitationAnswer): Promise<void>;
  /** Ends the run, also one that only waits. */
  stop(): Promise<void>;
  readonly connection: Connection;
}

/** What waits for somebody, as `GET /api/chat/{id}/pending` has it. */
export interface Pending {
  id: string;
  toolCallId: string;
  tool: string;
  input: unknown;
  kind: 'approval' | 'output' | 'elicitation';
  state: string;
  since: string;
  expires?: string;
  approvalId?: string;
  /** Why a person is asked, in the words of the rule that asks. */
  reason?: string;
  /** What an elicitation asks, in the words of the MCP server that asks it. */
  message?: string;
  server?: string;
  requestedSchema?: object;
}

export interface Fermata {
  /** A chat, of your framework's `Chat` class. One object per chat and page. */
  chat<MESSAGE extends UIMessage, CHAT extends AbstractChat<MESSAGE>>(
    Chat: new (init: ChatInit<MESSAGE>) => CHAT,
    init: ChatInit<MESSAGE> & { id: string },
  ): CHAT & FermataChat;
  /**
   * Asks the server for JSON, with the headers that every request has:
   * `server.request('/api/chats?limit=50')`.
   */
  request<T>(path: string, init?: RequestInit): Promise<T>;
}

/** A request that the server refused; its message can be shown. */
export class FermataError extends Error {
  override readonly name = 'FermataError';

  /**
   * @param status the HTTP status
   * @param code what went wrong, such as `already_answered`
   */
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

/** Connects chats with a Fermata server. */
export function fermata(options: FermataOptions = {}): Fermata {
  const line = new Line(options);
  return {
    chat: (Chat, init) => {
      const follower = new Follower(line, init.id);
      return follower.attach(new Chat({ ...init, ...follower.init(init) }));
    },
    request: (path, init) => line.json(path, init),
  };
}

/** What a browser has, and a server that renders the page has not. */
const page: Partial<typeof globalThis> = globalThis;

// === the line to the server ===

/** Four keep-alive comments of the server missed. */
const SILENCE = 45_000;
/** Waits between attempts, in milliseconds; the last one repeats. */
const WAITS = [300, 1000, 2000, 4000, 8000, 15_000];
/** How often an answer or a post that found nobody is sent. */
const ATTEMPTS = 6;

/** How often a stream that the AI SDK would not read is asked for again. */
const RECOVERIES = 3;

/** Whether the same request may go well later. */
const isTrouble = (status: number) => [408, 429, 502, 503, 504].includes(status);

/** Requests, and what is the same for all of them. */
class Line {
  readonly api: string;

  constructor(readonly options: FermataOptions) {
    this.api = options.api ?? '/api/chat';
  }

  get headers(): Record<string, string> {
    const { headers } = this.options;
    return (typeof headers === 'function' ? headers() : headers) ?? {};
  }

  tools(chatId: string): Record<string, BrowserTool> {
    const { tools } = this.options;
    return (typeof tools === 'function' ? tools(chatId) : tools) ?? {};
  }

  /** What a post has besides the messages. */
  body(chatId: string): object {
    const { client = 7, hold, body } = this.options;
    const tools = Object.entries(this.tools(chatId)).map(([name, { description, inputSchema }]) => [
      name,
      { ...(description !== undefined && { description }), parameters: inputSchema },
    ]);
    return {
      ...(tools.length > 0 && { tools: Object.fromEntries(tools) as object }),
      ...body?.(chatId),
      fermata: { client, ...(hold !== undefined && { hold }) },
    };
  }

  url(chatId: string, what = ''): string {
    return `${this.api}/${encodeURIComponent(chatId)}${what}`;
  }

  async fetch(url: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    return (this.options.fetch ?? fetch)(url, init);
  }

  async json<T>(url: string, init: RequestInit = {}): Promise<T> {
    const headers = { ...this.headers, ...(init.body != null && { 'content-type': 'application/json' }) };
    const response = await this.fetch(url, { ...init, headers });
    if (!response.ok) throw await refusal(response);
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  /** Says something that does no harm when it is said twice, until it is heard. */
  async insist<T>(say: () => Promise<T>, isWorthIt = (attempt: number) => attempt < ATTEMPTS): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await say();
      } catch (error) {
        const isHopeless = error instanceof FermataError && !isTrouble(error.status);
        if (isHopeless || !isWorthIt(attempt)) throw error;
        await pause(attempt - 1);
      }
    }
  }
}

/** A post to a chat that the server has: only what is said last is news to it. */
function withoutHistory<POST extends { messages: UIMessage[] }>(post: POST): POST {
  const { fermata } = post as { fermata?: object };
  return { ...post, messages: post.messages.slice(-1), fermata: { ...fermata, exists: true } };
}

/** The same post to a server that has not. */
function withHistory(post: string, messages: UIMessage[]): string {
  const { fermata, ...rest } = JSON.parse(post) as { fermata?: object };
  return JSON.stringify({ ...rest, messages, fermata: { ...fermata, exists: false } });
}

/** Whether an answer was refused because of what it says. */
const isUnfit = (error: unknown): error is FermataError =>
  error instanceof FermataError && [400, 413, 422].includes(error.status);

/** Whether an answer was refused because nobody waits for it any more. */
const isOver = (error: unknown) =>
  error instanceof FermataError && ['already_answered', 'gone', 'not_found'].includes(error.code);

async function refusal(response: Response): Promise<FermataError> {
  const text = await response.text();
  try {
    const problem = JSON.parse(text) as { code?: string; detail?: string };
    return new FermataError(response.status, problem.code ?? 'unknown', problem.detail ?? text);
  } catch {
    return new FermataError(response.status, 'unknown', text || `The server answered ${response.status}.`);
  }
}

/**
 * Waits before the next attempt: longer each time, shorter when the network comes back or nobody wants it any
 * more.
 */
function pause(attempt: number, signal?: AbortSignal): Promise<void> {
  const longest = WAITS[Math.min(attempt, WAITS.length - 1)] ?? 0;
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      page.removeEventListener?.('online', go);
      signal?.removeEventListener('abort', go);
      resolve();
    };
    const timer = setTimeout(go, longest * (0.5 + Math.random() / 2));
    page.addEventListener?.('online', go);
    signal?.addEventListener('abort', go);
  });
}

// === parts ===

/** What all versions have in common in a tool part. */
interface ToolPart {
  type: string;
  toolCallId: string;
  toolName?: string;
  state: string;
  input?: unknown;
  preliminary?: boolean;
  approval?: { id: string };
}

const isToolPart = (part: object): part is ToolPart => 'toolCallId' in part && 'state' in part;
const nameOf = (part: ToolPart) => part.toolName ?? part.type.slice('tool-'.length);

const OPEN = ['input-streaming', 'input-available', 'approval-requested'];
const isOpen = (part: ToolPart) => OPEN.includes(part.state) || part.preliminary === true;

const hasOpenCall = ({ role, parts }: UIMessage) =>
  role === 'assistant' && (parts as object[]).some((part) => isToolPart(part) && isOpen(part));

/** What a message says. */
const wordsOf = (message: UIMessage) =>
  message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

/** The calls of a message's last step. */
function lastStep(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== 'assistant') return [];
  const parts: object[] = message.parts;
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return parts.slice(start + 1).filter(isToolPart);
}

// === a chat ===

interface View {
  messages: UIMessage[];
  pending: Pending[];
  open: boolean;
}

interface Answered {
  calls: { toolCallId: string; state: string; waitingFor: string[] }[];
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

/** Words that the server has perhaps not heard of. */
interface Unsent {
  message: UIMessage;
  /** Why. */
  error?: Error;
  /** Whether the page does not show them while it follows a run. */
  isAside: boolean;
}

const CHANNEL = 'fermata';

/** Follows one chat: what its `Chat` object has no notion of. */
class Follower {
  #chat!: AbstractChat<UIMessage>;
  #stock!: Stock;
  #errands: Errands;
  /** Calls that this page has answered since it last posted. */
  #answered = new Set<string>();
  /** Whether the server has the chat. */
  #isKnown = false;
  /** Whether the stream that is read began with a post, so that nothing in it is a replay. */
  #isFresh = false;
  /** Whether the page may show something else than what the server has. */
  #isStale = false;
  /** Whether a stream was asked for, and nobody has said yet whether there is one. */
  #isAsking = false;
  /** What is read, or asked for, newest; aborting it ends that. */
  #current = new AbortController();
  /** The answer to that, until the AI SDK asks for it. */
  #found: ReadableStream<Uint8Array> | undefined;
  /** How many requests of the AI SDK are under way, or read. */
  #busy = 0;
  /** All messages, as they were when the last post was made. */
  #history: UIMessage[] = [];
  /** Why the last post failed. */
  #failure: unknown;
  /**
   * What the person said last, when the post that carried it did not get through: perhaps the server has not
   * heard of it.
   */
  #said: Unsent | undefined;
  /** Posts that no response has come to. */
  #sending = new Set<AbortController>();
  /** How often the run was asked for again since a stream of it came to its end. */
  #recoveries = 0;
  /** Counts answers, when they are given and when they have arrived. */
  #given = 0;
  #refreshing = Promise.resolve();
  /** The refresh that has not begun yet. */
  #nextRefresh: Promise<void> | undefined;
  /** Whether nobody looks at the chat any more. */
  #isLeft = false;
  #tabs: BroadcastChannel | undefined;
  #connection: Connection = 'closed';

  constructor(
    private readonly line: Line,
    private readonly id: string,
  ) {
    this.#errands = new Errands(line.api, id);
  }

  // === attaching ===

  /** What a `Chat` is constructed with. */
  init<MESSAGE extends UIMessage>(given: ChatInit<MESSAGE>): Partial<ChatInit<MESSAGE>> {
    return {
      transport: new DefaultChatTransport<MESSAGE>({
        api: this.line.api,
        headers: () => this.line.headers,
        body: () => this.line.body(this.id),
        fetch: (url: string | URL | Request, init?: RequestInit) => this.#fetch(url, init),
        prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => {
          const post = { ...body, id, messages, trigger, messageId };
          this.#history = messages;
          return { body: this.#isKnown ? withoutHistory(post) : post };
        },
      }),
      sendAutomaticallyWhen: ({ messages }) => this.#mustPost(messages),
      onToolCall: ({ toolCall }) => {
        void given.onToolCall?.({ toolCall });
        // The types differ from version to version; these two fields do not.
        const { toolName, toolCallId, input } = toolCall as {
          toolName: string;
          toolCallId: string;
          input: unknown;
        };
        this.#run(toolName, toolCallId, input, !this.#isFresh);
      },
      onError: (error) => void this.#recover(error, given.onError),
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
      refresh: () => this.#reload(),
      addToolOutput: (output) => this.#addToolOutput(output),
      addToolApprovalResponse: (response) => this.#addToolApprovalResponse(response),
      answerElicitation: (answer) => this.#answer({ ...answer }).then(() => undefined),
      stop: () => this.#stop(),
    };
    const connection = { get: () => this.#connection };
    // The AI SDK has an older name for one of them.
    Object.assign(chat, more, { addToolResult: more.addToolOutput });
    return Object.defineProperty(chat, 'connection', connection) as CHAT & FermataChat;
  }

  /** Its status says `ready` where a stream ends beside the one that is read. */
  #isStreaming() {
    return this.#busy > 0 || this.#chat.status === 'streaming' || this.#chat.status === 'submitted';
  }

  #connect(connection: Connection) {
    if (this.#connection === connection) return;
    this.#connection = connection;
    this.line.options.onConnection?.(connection, this.id);
  }

  // === loading and following ===

  #open(isNew: boolean): () => void {
    const onVisible = () => {
      // After an error the page may show words that the server does not have yet.
      if (document.visibilityState === 'visible' && this.#chat.status === 'ready') void this.#refresh();
    };
    // Tabs of one browser tell each other when something begins that the others do not follow yet.
    this.#tabs = page.BroadcastChannel && new BroadcastChannel(CHANNEL);
    this.#tabs?.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      // What is being read may be what the other tab has just left behind.
      if (data === this.#topic) void this.#refresh();
    });
    page.document?.addEventListener('visibilitychange', onVisible);
    this.#isLeft = false;
    if (!isNew) void this.#refresh();
    return () => {
      this.#isLeft = true;
      page.document?.removeEventListener('visibilitychange', onVisible);
      this.#tabs?.close();
      this.#tabs = undefined;
      // Only some versions have an end for a stream that was resumed.
      this.#current.abort();
    };
  }

  get #topic() {
    return `${this.line.api} ${this.id}`;
  }

  #tellTabs() {
    this.#tabs?.postMessage(this.#topic);
  }

  /** One at a time, none while a stream is read; one that has not begun serves all who ask. */
  #refresh(): Promise<void> {
    this.#nextRefresh ??= this.#refreshing = this.#refreshing
      .catch(() => undefined)
      .then(async () => {
        do {
          while (this.#isStreaming()) await new Promise((resolve) => setTimeout(resolve, 50));
          this.#nextRefresh = undefined;
        } while (!this.#isLeft && !(await this.#load()));
      });
    return this.#nextRefresh;
  }

  /** The same, even where that sets words aside that were not sent. */
  #reload(): Promise<void> {
    if (!this.#isStreaming()) this.#chat.clearError();
    return this.#refresh();
  }

  /** Shows what the server has; false where that was overtaken by what happened meanwhile. */
  async #load(): Promise<boolean> {
    const current = this.#begin();
    const given = this.#given;
    const isOvertaken = () =>
      current.signal.aborted || current !== this.#current || given !== this.#given || this.#isStreaming();
    try {
      const view = await this.#view(() => {
        this.#connect('reconnecting');
        return !isOvertaken();
      });
      this.#isKnown = true;
      if (isOvertaken()) return false;
      this.#forgetWhatArrived(view);
      if (view.open && this.#chat.status === 'error' && this.#said !== undefined) {
        // What follows a run would push the words aside that are still to be sent.
        this.#isStale = false;
        this.#putLast(this.#said);
        return true;
      }
      this.#isAsking = view.open;
      const body = view.open ? await this.#takeUp(undefined, current.signal) : undefined;
      if (isOvertaken()) {
        void body?.cancel().catch(() => undefined);
        return false;
      }
      if (view.open && body === undefined) {
        // Between the two requests the run came to its end, or was let go.
        await pause(0, current.signal);
        return false;
      }
      await this.#show(view, body);
    } catch (error) {
      if (isOvertaken()) return false;
      // A chat that nobody has posted to yet is empty.
      if (error instanceof FermataError && error.code === 'not_found') this.#isKnown = false;
      else this.#fail(error);
    } finally {
      if (current === this.#current) this.#isAsking = false;
      if (!this.#isStreaming()) this.#connect('closed');
    }
    return true;
  }

  #keepWords(error?: Error) {
    const message = this.#chat.messages.findLast(({ role }) => role === 'user');
    this.#said = message && { message, ...(error && { error }), isAside: false };
  }

  /** Words that the server has are no longer to be sent. */
  #forgetWhatArrived({ messages }: View) {
    const said = this.#said?.message;
    if (
      said !== undefined &&
      messages.some((message) => message.id === said.id && wordsOf(message) === wordsOf(said))
    )
      this.#said = undefined;
  }

  /** Shows the record, and what follows; only now, so that nothing vanishes while the server is asked. */
  async #show({ messages, pending }: View, body: ReadableStream<Uint8Array> | undefined): Promise<void> {
    this.#chat.clearError();
    this.#chat.messages = messages;
    this.#found = body;
    // What comes can only be added to the message that is the last one: words that were not sent come back
    // behind it, once it is whole.
    this.#isStale = body !== undefined && this.#said !== undefined;
    if (body !== undefined) {
      if (this.#said !== undefined) this.#said.isAside = true;
      await this.#chat.resumeStream();
      return;
    }
    if (this.#said !== undefined) this.#putLast(this.#said);
    for (const { kind, tool, toolCallId, input } of pending)
      if (kind === 'output') this.#run(tool, toolCallId, input, true);
  }

  /** Shows words that were not sent, and why. */
  #putLast(unsent: Unsent) {
    const { message, error } = unsent;
    const { messages } = this.#chat;
    const known = messages.findIndex(({ id }) => id === message.id);
    this.#chat.messages = [...messages.slice(0, known < 0 ? undefined : known), message];
    unsent.isAside = false;
    if (error !== undefined) this.#fail(error);
  }

  /** From now on, this is what the page reads; what it reads besides comes to its own end. */
  #begin(): AbortController {
    this.#current = new AbortController();
    return this.#current;
  }

  #view(isWorthIt?: (attempt: number) => boolean): Promise<View> {
    return this.line.insist(() => this.line.json<View>(this.line.url(this.id)), isWorthIt);
  }

  #fail(error: unknown) {
    // The AI SDK has no public way to show an error that a chat did not meet itself.
    const chat = this.#chat as unknown as { setStatus(state: { status: string; error: Error }): void };
    chat.setStatus({ status: 'error', error: error instanceof Error ? error : new Error(String(error)) });
  }

  /** The server that held the stream may be gone, and not the run: then it is followed at the next one. */
  async #recover(error: Error, tell: ((error: Error) => void) | undefined): Promise<void> {
    const isWanted = () => !this.#isLeft && this.#chat.status === 'error';
    if (error === this.#failure) this.#keepWords(error);
    // What a person sent and the server refused is still to be sent; what only went on with a run may have
    // been overtaken by others.
    const isRefused =
      error === this.#failure && error instanceof FermataError && this.#chat.messages.at(-1)?.role === 'user';
    // What the AI SDK cannot read, it cannot read later either.
    if (!isRefused && this.#recoveries < RECOVERIES) {
      try {
        if (this.#recoveries > 0) await pause(this.#recoveries);
        this.#recoveries += 1;
        const view = await this.#view(() => {
          this.#connect('reconnecting');
          return isWanted();
        });
        this.#forgetWhatArrived(view);
        if (isWanted() && (view.open || view.pending.length > 0) && this.#said === undefined) {
          await this.#refresh();
          return;
        }
      } catch {
        // What the page is told is why it had to look.
      } finally {
        if (!this.#isStreaming()) this.#connect('closed');
      }
    }
    tell?.(error);
  }

  // === one stream over many connections ===

  async #fetch(url: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const isPost = init.method === 'POST';
    const found = isPost ? undefined : this.#found;
    this.#found = undefined;
    const current = found === undefined ? this.#begin() : this.#current;
    // A page that is left reads no more, but what it has said is still said.
    const sending = new AbortController();
    const { signal } = isPost ? sending : current;
    const giveUp = () => {
      current.abort();
      sending.abort();
    };
    if (init.signal?.aborted) giveUp();
    init.signal?.addEventListener('abort', giveUp);
    if (isPost) this.#sending.add(sending);
    this.#busy += 1;
    try {
      let response = found === undefined ? await this.#ask(url, { ...init, signal }) : new Response(found);
      if (isPost && this.#isKnown && response.status === 404) {
        // It was forgotten, or deleted elsewhere: what this page has of it is what there is.
        this.#isKnown = false;
        response = await this.#ask(url, {
          ...init,
          signal,
          body: withHistory(init.body as string, this.#history),
        });
      }
      this.#isAsking = false;
      if (!response.ok) {
        // As it is, the AI SDK would show the problem document instead of its words.
        throw await refusal(response);
      }
      this.#isFresh = isPost;
      if (isPost) this.#hasPosted();
      if (response.body !== null) {
        const { status, headers } = response;
        this.#busy += 1;
        return new Response(this.#endure(response.body, current), { status, headers });
      }
      return response;
    } catch (error) {
      if (isPost) this.#failure = error;
      // The stream that is still read will go on behind the message that was not sent.
      if (isPost && this.#busy > 1) this.#isStale = true;
      throw error;
    } finally {
      this.#sending.delete(sending);
      this.#busy -= 1;
    }
  }

  #hasPosted() {
    // The run that was posted over is superseded, and so is what the page still does for it.
    this.#errands.stop();
    this.#answered.clear();
    // Words that the person sees, and goes on without, are not to be sent any more.
    if (this.#said?.isAside !== true) this.#said = undefined;
    this.#isKnown = true;
    this.#recoveries = 0;
    this.#tellTabs();
    // Where the record cannot be had now, the next loading has it.
    if (this.#chat.messages.slice(0, -1).some(hasOpenCall)) void this.#settle().catch(() => undefined);
  }

  /** Nothing was done where the answer is 503, so a post may be sent again. */
  async #ask(url: string | URL | Request, init: RequestInit): Promise<Response> {
    const signal = init.signal ?? undefined;
    let response = await this.line.fetch(url, init);
    for (let attempt = 0; response.status === 503 && attempt < ATTEMPTS && !signal?.aborted; attempt++) {
      await pause(attempt, signal);
      response = await this.line.fetch(url, init);
    }
    return response;
  }

  #endure(first: ReadableStream<Uint8Array>, current: AbortController): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    const { signal } = current;
    const run = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const reading = new Reading(this.line.options.silence ?? SILENCE, (event) => {
        controller.enqueue(encoder.encode(event));
      });
      let body: ReadableStream<Uint8Array> | undefined = first;
      while (body !== undefined) {
        if (!signal.aborted) this.#connect('open');
        if ((await reading.read(body, signal)) || signal.aborted) break;
        // Without a place, all would come again, and some versions would add it to what they have: it is
        // loaded instead.
        if (reading.place === undefined) break;
        this.#connect('reconnecting');
        body = await this.#takeUp(reading.place, signal);
        // What was missed may be over already.
        this.#isFresh = false;
      }
      if (reading.isWhole) this.#recoveries = 0;
      // What this page itself has posted meanwhile is no reason to look what became of the run.
      if (!reading.isWhole && !signal.aborted && current === this.#current) this.#isStale = true;
    };
    return new ReadableStream({
      start: (controller) => {
        void run(controller)
          .then(
            () => {
              controller.close();
            },
            (error: unknown) => {
              controller.error(error);
            },
          )
          // The page may have cancelled the stream meanwhile.
          .catch(() => undefined)
          .finally(() => {
            this.#busy -= 1;
            if (current === this.#current) this.#connect('closed');
            // The stream ended elsewhere than the run, or somebody else went on: what is missing is in the
            // record.
            if (this.#isStale) void this.#refresh();
          });
      },
      // The AI SDK could not read what it was told.
      cancel: () => {
        current.abort();
      },
    });
  }

  /** Asks for the stream after a place in it, until somebody has it; `undefined` where nobody has. */
  async #takeUp(
    place: string | undefined,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | undefined> {
    const headers = { ...this.line.headers, ...(place !== undefined && { 'last-event-id': place }) };
    for (let attempt = 0; !signal.aborted; attempt++) {
      if (attempt > 0) {
        if (signal === this.#current.signal) this.#connect('reconnecting');
        await pause(attempt - 1, signal);
      }
      try {
        const response = await this.line.fetch(this.line.url(this.id, '/stream'), { headers, signal });
        if (response.status === 200 && response.body !== null) return response.body;
        if (response.status === 204) return undefined;
        if (!isTrouble(response.status)) throw await refusal(response);
      } catch (error) {
        if (error instanceof FermataError) throw error;
      }
    }
    return undefined;
  }

  /**
   * What became of calls that a new message has left behind: their own stream has ended without a word of it.
   */
  async #settle(): Promise<void> {
    const { messages } = await this.#view();
    const stored = new Map(messages.map((message) => [message.id, message]));
    const settled = this.#chat.messages.map((message, place, { length }) =>
      place < length - 1 && hasOpenCall(message) ? (stored.get(message.id) ?? message) : message,
    );
    this.#chat.messages = settled;
  }

  // === answers ===

  /** Whether an answer that this page gave goes on only if the chat is posted again. */
  #mustPost(messages: UIMessage[]): boolean {
    const calls = lastStep(messages.at(-1));
    // What is asked for brings what follows, too.
    if (this.#isStale || this.#isAsking || this.#isLeft) return false;
    return calls.some((part) => this.#answered.has(part.toolCallId)) && !calls.some(isOpen);
  }

  #part(is: (part: ToolPart) => boolean): ToolPart | undefined {
    return this.#chat.messages
      .flatMap((message) => message.parts as object[])
      .filter(isToolPart)
      .findLast(is);
  }

  /** Delivers an answer. */
  async #answer(fields: object, isWorthIt?: () => boolean): Promise<Answered> {
    const body = JSON.stringify({ chatId: this.id, ...fields });
    // Next to the chat endpoint, so that one path prefix is enough for a proxy.
    const send = () => this.line.json<Answered>(`${this.line.api}/tool-result`, { method: 'POST', body });
    this.#given += 1;
    try {
      const answered = await this.line.insist(send, isWorthIt);
      if (!this.#isStreaming()) {
        this.#tellTabs();
        // What the AI SDK would go on with is no longer the last message.
        if (this.#chat.messages.at(-1)?.role === 'user') void this.#reload();
      }
      return answered;
    } catch (error) {
      if (isOver(error) && !this.#isStreaming()) void this.#reload();
      throw error;
    } finally {
      this.#given += 1;
    }
  }

  async #addToolOutput(output: ToolOutput, isWorthIt?: () => boolean): Promise<void> {
    const { toolCallId, state, errorText } = output;
    const isError = state === 'output-error';
    await this.#answer(
      { toolCallId, ...(isError ? { errorText: errorText ?? '' } : { output: output.output ?? null }) },
      isWorthIt,
    );
    this.#errands.forget(toolCallId);
    const part = this.#part((part) => part.toolCallId === toolCallId);
    if (part === undefined || !isOpen(part)) return;
    this.#answered.add(toolCallId);
    await this.#stock.addToolOutput(isError ? output : { ...output, output: output.output ?? null });
  }

  async #addToolApprovalResponse(response: ApprovalResponse): Promise<void> {
    const { id, approved, reason, always, input } = response;
    const { calls } = await this.#answer({ approvalId: id, approved, reason, always, input });
    if (this.#stock.addToolApprovalResponse === undefined) {
      // Version 5 has no state for a call that was approved; what follows is in the stream.
      if (!this.#isStreaming()) void this.#refresh();
      return;
    }
    const waiting = calls.flatMap((call) => call.waitingFor);
    const part = this.#part((part) => part.approval?.id === id);
    for (const other of lastStep(this.#chat.messages.at(-1))) {
      if (other.state !== 'approval-requested' || other.approval === undefined) continue;
      const isThis = other.approval.id === id;
      // Nothing waits for a decision any more, or "always" has decided this one, too.
      const isCovered = always === true && part !== undefined && nameOf(other) === nameOf(part);
      if (!isThis && (waiting.includes(other.toolCallId) || (waiting.length > 0 && !isCovered))) continue;
      this.#answered.add(other.toolCallId);
      const mine = { approved, ...(reason !== undefined && { reason }) };
      await this.#stock.addToolApprovalResponse({
        id: other.approval.id,
        ...(isThis ? mine : { approved: true }),
      });
    }
  }

  async #stop(): Promise<void> {
    const stop = () =>
      this.line.insist(() => this.line.json(this.line.url(this.id, '/stop'), { method: 'POST' }));
    try {
      await stop();
      this.#errands.stop();
      // The server ends the stream; what it says at the end is worth having.
      for (let waited = 0; this.#isStreaming() && waited < 2000; waited += 20)
        await new Promise((next) => setTimeout(next, 20));
      const isOverdue = this.#isStreaming();
      if (isOverdue) this.#current.abort();
      // A message may have been on its way when the first stop came in, or may never arrive.
      if (await this.#giveUp()) await stop();
      if (isOverdue || this.#part(isOpen)) await this.#refresh();
    } finally {
      await this.#giveUp();
      this.#tellTabs();
    }
  }

  /** Reads and sends nothing more; whether a message was on its way, which stays on the page. */
  async #giveUp(): Promise<boolean> {
    const isSending = this.#sending.size > 0;
    if (isSending) this.#keepWords();
    for (const sending of this.#sending) sending.abort();
    await this.#stock.stop();
    return isSending;
  }

  // === the page's tools ===

  #run(name: string, toolCallId: string, input: unknown, isReplay: boolean) {
    const tool = this.line.tools(this.id)[name];
    if (tool?.execute === undefined) return;
    void this.#errands.run(toolCallId, tool, input, {
      isReplay,
      stillWaits: async () => {
        const { pending } = await this.line.insist(() =>
          this.line.json<{ pending: Pending[] }>(this.line.url(this.id, '/pending')),
        );
        return pending.some((waiting) => waiting.kind === 'output' && waiting.toolCallId === toolCallId);
      },
      deliver: (outcome, isWorthIt) => this.#addToolOutput({ tool: name, toolCallId, ...outcome }, isWorthIt),
    });
  }
}

// === reading events ===

/** Takes a stream of events apart, so that the rest of it can come from another connection. */
class Reading {
  /** The last event of the log that was read; what was said to this reader alone has no place there. */
  place: string | undefined;
  /** Whether the run's own end was read; the stream of one that a new message left behind ends without. */
  isWhole = false;
  #isOver = false;
  #run: string | undefined;

  constructor(
    private readonly silence: number,
    private readonly tell: (event: string) => void,
  ) {}

  /** Reads until the stream ends, or breaks; whether there is nothing more to be read. */
  async read(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<boolean> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const cancel = () => void reader.cancel().catch(() => undefined);
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel);
    let rest = '';
    try {
      for (;;) {
        const piece = await inTime(reader.read(), this.silence);
        if (piece === undefined || piece.done) return this.#isOver;
        const events = (rest + decoder.decode(piece.value, { stream: true })).split('\n\n');
        rest = events.pop() ?? '';
        for (const event of events) if (!this.#take(event)) return true;
      }
    } catch {
      return this.#isOver;
    } finally {
      signal.removeEventListener('abort', cancel);
      cancel();
    }
  }

  /** Hands an event on; false where the connection has come to belong to another run. */
  #take(event: string): boolean {
    const id = /^id: ?(.*)$/m.exec(event)?.[1];
    const [run, place] = id?.split(':') ?? [];
    this.#run ??= run;
    if (run !== undefined && run !== this.#run) return false;
    if (place !== undefined && !place.includes('.')) this.place = id;
    this.tell(`${event}\n\n`);
    if (/^data: ?\{"type":"(finish|error)"/m.test(event)) this.isWhole = true;
    this.#isOver = this.isWhole || /^data: ?\[DONE\]/m.test(event);
    return true;
  }
}

/** What a promise gives, or `undefined` where it takes too long. */
async function inTime<T>(promise: Promise<T>, longest: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, longest, undefined);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// === what the browser has to do ===

type Outcome = { output: unknown } | { state: 'output-error'; errorText: string };

interface Errand {
  isReplay: boolean;
  stillWaits: () => Promise<boolean>;
  /** Tells the server, as long as it is worth it. */
  deliver: (outcome: Outcome, isWorthIt: () => boolean) => Promise<void>;
}

/** Runs calls: one tab runs one, and keeps in mind what it did until the server knows. */
class Errands {
  #begun = new Set<string>();
  #stopping = new AbortController();

  constructor(
    private readonly api: string,
    private readonly chatId: string,
  ) {}

  stop() {
    this.#stopping.abort();
    this.#stopping = new AbortController();
  }

  forget(toolCallId: string) {
    memory()?.removeItem(this.#key(toolCallId));
  }

  async run(toolCallId: string, tool: BrowserTool, input: unknown, errand: Errand): Promise<void> {
    if (this.#begun.has(toolCallId)) return;
    this.#begun.add(toolCallId);
    await alone(this.#key(toolCallId), async (hadToWait) => {
      const { signal } = this.#stopping;
      try {
        if ((errand.isReplay || hadToWait) && !(await errand.stillWaits())) {
          this.forget(toolCallId);
          return;
        }
        const outcome = await this.#outcome(toolCallId, tool, input, signal);
        // Its run was stopped or superseded meanwhile: the server has settled the call.
        if (signal.aborted) this.forget(toolCallId);
        else await this.#deliver(outcome, errand, signal);
      } catch (error) {
        if (isOver(error) || signal.aborted) this.forget(toolCallId);
        // It is told when the chat is opened again.
        else this.#begun.delete(toolCallId);
      }
    });
  }

  /** Tells the server for as long as it takes; what it would not take is the call's error. */
  async #deliver(outcome: Outcome, { deliver }: Errand, signal: AbortSignal): Promise<void> {
    const isWorthIt = () => !signal.aborted;
    try {
      await deliver(outcome, isWorthIt);
    } catch (error) {
      if (!isUnfit(error) || 'errorText' in outcome) throw error;
      await deliver({ state: 'output-error', errorText: error.message }, isWorthIt);
    }
  }

  async #outcome(
    toolCallId: string,
    tool: BrowserTool,
    input: unknown,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const known = this.#recall(toolCallId);
    if (known !== undefined && known !== 'begun') return known;
    if (known === 'begun' && tool.repeatable !== true) {
      const errorText =
        'The page was closed or reloaded while this tool ran in it; whether it took effect is not known.';
      return { state: 'output-error', errorText };
    }
    this.#note(toolCallId, 'begun');
    const outcome = await this.#execute(toolCallId, tool, input, signal);
    this.#note(toolCallId, outcome);
    return outcome;
  }

  async #execute(
    toolCallId: string,
    tool: BrowserTool,
    input: unknown,
    signal: AbortSignal,
  ): Promise<Outcome> {
    try {
      return { output: (await tool.execute?.(input, { toolCallId, signal })) ?? null };
    } catch (error) {
      return { state: 'output-error', errorText: error instanceof Error ? error.message : String(error) };
    }
  }

  #key(toolCallId: string) {
    return `fermata ${this.api} ${this.chatId} ${toolCallId}`;
  }

  #recall(toolCallId: string): Outcome | 'begun' | undefined {
    const known = memory()?.getItem(this.#key(toolCallId)) ?? null;
    return known === null ? undefined : (JSON.parse(known) as Outcome | 'begun');
  }

  #note(toolCallId: string, what: Outcome | 'begun') {
    try {
      memory()?.setItem(this.#key(toolCallId), JSON.stringify(what));
    } catch {
      // It is full; the call still runs once in this page.
    }
  }
}

/** Where the page keeps what must survive it; none where the browser forbids it. */
function memory(): Storage | undefined {
  try {
    return page.localStorage;
  } catch {
    return undefined;
  }
}

/** Does something while no other tab does it. */
async function alone(name: string, work: (hadToWait: boolean) => Promise<void>): Promise<void> {
  const locks = page.navigator?.locks;
  if (locks === undefined) return work(false);
  const begun: boolean[] = [];
  const begin = (hadToWait: boolean) => {
    begun.push(hadToWait);
    return work(hadToWait);
  };
  try {
    const isDone = await locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock === null) return false;
      await begin(false);
      return true;
    });
    if (!isDone) await locks.request(name, () => begin(true));
  } catch (error) {
    if (begun.length > 0) throw error;
    // Locks are refused where a page has no origin of its own, as in a sandboxed frame: there it is the only
    // tab.
    await work(false);
  }
}
