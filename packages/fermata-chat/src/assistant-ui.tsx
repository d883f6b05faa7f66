// Fermata's runtime for assistant-ui: its threads are the chats of the server.
//
//   import { AssistantRuntimeProvider, AuiConfig, Tools } from '@assistant-ui/react';
//   import { useFermataRuntime } from 'fermata-chat/assistant-ui';
//
//   const config = AuiConfig({ tools: Tools({ toolkit }) });
//
//   function App() {
//     const runtime = useFermataRuntime();
//     return (
//       <AssistantRuntimeProvider runtime={runtime} config={config}>
//         <ThreadList />
//         <Thread />
//       </AssistantRuntimeProvider>
//     );
//   }
//
//   useFermataRuntime({ threadId, onThreadIdChange })        // which chat is shown, such as from the URL
//   useFermataRuntime({ repeatable: ['get_location'] })      // tools that may run again after a reload
//   useFermataRuntime({ newest: 60 })                        // long chats stay fast; see `useFermataEarlier`
//
// In a tool's UI, the props that assistant-ui gives are enough:
//
//   respondToApproval({ approved: true })
//   respondToApproval({ optionId: 'always' })                // for this tool in this chat
//   respondToApproval({ approved: false, reason: 'not today' })
//   addResult({ name: 'Ann' })                               // a tool without `execute`
//   resume({ confirmed: true })                              // what `human()` waits for
//
// and for what assistant-ui has no word for, there is the chat itself:
//
//   const chat = useFermataThread();
//   chat?.addToolApprovalResponse({ id: approval.id, approved: true, input: edited })
//   chat?.answerElicitation({ elicitationId, action: 'accept', content: { name: 'Ann' } })
//   chat?.stop()                                             // also while the run only waits
//   chat?.messages                                           // with the parts as the AI SDK has them; see `toolCallIdOf`
//
// What you can rely on:
// - Everything that the package promises: answers go on in the stream that is open, tools run once, in one
//   tab.
// - A tool with `execute` runs when the server says so: what must be asked about is asked first, and runs
//   with the input that was approved. One that waits for `human()` counts as running; name it in `repeatable`
//   to ask again after a reload.
// - While a run waits for this page only, the thread counts as not running, as assistant-ui has it: the
//   message's status is `requires-action`, and the composer sends. A new message supersedes the run.
// - The thread list is the server's. It cannot rename or archive chats; both are refused with an error that
//   says so.
// - The server's record is the truth: branches of edited or regenerated messages are not kept, nor are local
//   deletions.
//
// How it works: assistant-ui runs a tool only in a run that has ended, and never one that was asked about. So
// tools are run by the chat instead (see `Page`), and a run that waits for this page only is shown as
// ended (see `Thread`).

import { Chat, useChat } from '@ai-sdk/react';
import { useAuiState, useRemoteThreadListRuntime, type AssistantRuntime } from '@assistant-ui/react';
import { useAISDKChat, useAISDKRuntime } from '@assistant-ui/react-ai-sdk';
import { generateId, getToolName, isToolUIPart, type UIMessage } from 'ai';
import {
  createAssistantStream,
  toToolsJSONSchema,
  unstable_runPendingTools as runPendingTools,
} from 'assistant-stream';
import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import {
  fermata,
  FermataError,
  type BrowserTool,
  type Fermata,
  type FermataChat,
  type FermataOptions,
} from './index.js';

// === what you give ===

type ChatHelpers = ReturnType<typeof useChat<UIMessage>>;
type RuntimeOptions = NonNullable<Parameters<typeof useAISDKRuntime<UIMessage>>[1]>;

export interface FermataRuntimeOptions extends Omit<FermataOptions, 'client' | 'tools'> {
  /** Names of tools that may run again, should the page go away while they run. */
  repeatable?: readonly string[];
  /** The chat that is shown; `undefined` is a new one. */
  threadId?: string | undefined;
  /**
   * Whether an id is one that the page has made up, and nobody has posted to yet: then the server is not
   * asked for it.
   */
  isNew?: (chatId: string) => boolean;
  /** Hears which chat is shown: `undefined` for a new one, until its first message. */
  onThreadIdChange?: ((threadId: string | undefined) => void) | undefined;
  /** At most one rendering in so many milliseconds while a message streams; 30 by default. */
  throttle?: number;
  /**
   * How many messages of a chat assistant-ui has at first, the newest; all of them by default. It has some
   * work with each whenever one grows, which a person feels from a few hundred on.
   */
  newest?: number;
  /** assistant-ui's own options: attachments, suggestions, … */
  runtime?: Omit<RuntimeOptions, 'onRespondToToolApproval' | 'messageRepository'>;
}

// === what you get ===

/** A chat of Fermata as assistant-ui's threads have it. */
export type AssistantChat = Chat<UIMessage> & FermataChat;

/**
 * The runtime: its threads are the chats of the server.
 *
 * The options of the first rendering hold, but for `threadId` and `onThreadIdChange`.
 */
export function useFermataRuntime(options: FermataRuntimeOptions = {}): AssistantRuntime {
  const [threads] = useState(() => new Threads(options));
  const [useThisThread] = useState(() => threadHook(threads));
  return useRemoteThreadListRuntime({
    runtimeHook: useThisThread,
    adapter: threads,
    threadId: options.threadId,
    onThreadIdChange: options.onThreadIdChange,
  });
}

/** The chat of the thread that is shown, for what assistant-ui has no word for. */
export function useFermataThread(): AssistantChat | undefined {
  const helpers = useAISDKChat() as Partial<Presented> | undefined;
  return helpers?.fermata;
}

/**
 * How many earlier messages of the thread that is shown assistant-ui does not have, and what gives it more:
 * as many as at first.
 */
export function useFermataEarlier(): Earlier {
  const helpers = useAISDKChat() as Partial<Presented> | undefined;
  return helpers?.earlier ?? { count: 0, show: () => undefined };
}

export interface Earlier {
  count: number;
  show: () => void;
}

/** The server's id of a call that assistant-ui shows. */
export function toolCallIdOf(shown: string): string {
  return shown.replace(/~\w+$/, '');
}

// === the thread list ===

type ThreadListAdapter = Parameters<typeof useRemoteThreadListRuntime>[0]['adapter'];

interface ListedChat {
  id: string;
  title: string | null;
  updatedAt: string;
}

/** As many characters of the first message as the server's own titles have. */
const TITLE_LENGTH = 80;

const isUnknown = (error: unknown) => error instanceof FermataError && error.code === 'not_found';

/** The chats of the server, as assistant-ui's list of threads. */
class Threads implements ThreadListAdapter {
  readonly #server: Fermata;
  readonly #api: string;
  /** The ids that chats get which were begun here, by assistant-ui's own. */
  readonly #begun = new Map<string, string>();

  readonly options: FermataRuntimeOptions;

  constructor(options: FermataRuntimeOptions) {
    this.options = options;
    this.#server = fermata(options);
    this.#api = options.api ?? '/api/chat';
  }

  list: ThreadListAdapter['list'] = async (page) => {
    const before = page?.after === undefined ? '' : `&before=${encodeURIComponent(page.after)}`;
    const { chats, next } = await this.#server.request<{ chats: ListedChat[]; next?: string }>(
      `${this.#api}s?limit=50${before}`,
    );
    const threads = chats.map(({ id, title, updatedAt }) => ({
      status: 'regular' as const,
      remoteId: id,
      lastMessageAt: new Date(updatedAt),
      ...(title !== null && { title }),
    }));
    return { threads, ...(next !== undefined && { nextCursor: next }) };
  };

  fetch: ThreadListAdapter['fetch'] = async (id) => {
    if (this.options.isNew?.(id)) return { status: 'regular', remoteId: id };
    try {
      const { messages } = await this.#server.request<{ messages: UIMessage[] }>(this.#url(id));
      return {
        status: 'regular',
        remoteId: id,
        title: titleOf(messages.map(({ role, parts }) => ({ role, content: parts }))),
      };
    } catch (error) {
      // A chat that nobody has posted to yet is empty.
      if (isUnknown(error)) return { status: 'regular', remoteId: id };
      throw error;
    }
  };

  initialize: ThreadListAdapter['initialize'] = (threadId) =>
    Promise.resolve({ remoteId: this.idOf(threadId) });

  delete: ThreadListAdapter['delete'] = async (id) => {
    try {
      await this.#server.request(this.#url(id), { method: 'DELETE' });
    } catch (error) {
      // Forgotten already, or the server never had it.
      if (!isUnknown(error)) throw error;
    }
  };

  /** The server's title is the beginning of the first message, which is known here, too. */
  generateTitle: ThreadListAdapter['generateTitle'] = (_id, messages) =>
    Promise.resolve(
      createAssistantStream((stream) => {
        const title = titleOf(messages);
        if (title !== undefined) stream.appendText(title);
      }),
    );

  rename: ThreadListAdapter['rename'] = () =>
    Promise.reject(new Error('A chat keeps the title that it was given by its first message.'));
  archive: ThreadListAdapter['archive'] = () =>
    Promise.reject(new Error('Chats cannot be archived. Delete the chat, or leave it.'));
  unarchive: ThreadListAdapter['unarchive'] = () =>
    Promise.reject(new Error('Chats cannot be archived, so there is none to bring back.'));

  /** The chat's id of a thread that is begun here. */
  idOf(threadId: string): string {
    const id = this.#begun.get(threadId) ?? generateId();
    this.#begun.set(threadId, id);
    return id;
  }

  #url(id: string) {
    return `${this.#api}/${encodeURIComponent(id)}`;
  }
}

interface TitleSource {
  readonly role: string;
  readonly content: readonly { readonly type: string; readonly text?: unknown }[];
}

/** The beginning of the first message, as the server has it. */
function titleOf(messages: readonly TitleSource[]): string | undefined {
  const parts = messages.find((message) => message.role === 'user')?.content ?? [];
  const texts = parts.map((part) =>
    part.type === 'text' && typeof part.text === 'string' ? part.text.trim() : '',
  );
  const characters = Array.from(texts.find((text) => text !== '') ?? '', (character) =>
    /\s/.test(character) ? ' ' : character,
  );
  if (characters.length === 0) return undefined;
  const beginning = characters.slice(0, TITLE_LENGTH).join('');
  return characters.length > TITLE_LENGTH ? `${beginning.trimEnd()}…` : beginning;
}

// === a thread ===

type Part = UIMessage['parts'][number];
type ToolPart = Extract<Part, { toolCallId: string }>;
type ModelContext = ReturnType<AssistantRuntime['thread']['getModelContext']>;
type Tool = NonNullable<ModelContext['tools']>[string];
type Respond = NonNullable<RuntimeOptions['onRespondToToolApproval']>;
type Presented = ChatHelpers & { fermata: AssistantChat; earlier: Earlier };

/** The answers that an approval can have, as assistant-ui's own UI offers them. */
const APPROVAL_OPTIONS = [
  { id: 'once', kind: 'allow-once' },
  { id: 'always', kind: 'allow-always' },
  { id: 'deny', kind: 'reject-once' },
];

/**
 * One chat, and what assistant-ui is shown of it.
 *
 * It is shown the newest messages, with two differences: while the open stream waits for this page only, the
 * status is `ready`; and a call whose tool waits for `human()` has an id of its own (see `Page`).
 */
class Thread {
  readonly chat: AssistantChat;
  readonly page = new Page();
  /** How many messages the next post keeps, where assistant-ui has cut some off. */
  #kept: number | undefined;

  readonly id: string;
  readonly options: FermataRuntimeOptions;

  constructor(id: string, options: FermataRuntimeOptions) {
    this.id = id;
    this.options = options;
    const body = (chatId: string) => ({ ...this.page.settings(), ...options.body?.(chatId) });
    const server = fermata({
      ...options,
      body,
      tools: () => this.page.tools(options.repeatable ?? []),
    });
    this.chat = server.chat<UIMessage, Chat<UIMessage>>(Chat, { id });
  }

  /** Opens the chat when the page's components have registered their tools. */
  follow(): () => void {
    let close: (() => void) | undefined;
    const isNew = this.options.isNew?.(this.id) === true;
    const opening = setTimeout(() => (close = this.chat.open({ isNew })));
    return () => {
      clearTimeout(opening);
      close?.();
    };
  }

  // === what assistant-ui is shown ===

  present(
    helpers: ChatHelpers,
    messages: UIMessage[],
    questions: readonly Question[],
    earlier: Earlier,
  ): Presented {
    const isWaiting =
      helpers.status === 'streaming' &&
      lastStep(helpers.messages.at(-1)).some((part) => this.#waits(part, questions));
    return {
      ...helpers,
      messages,
      status: isWaiting ? 'ready' : helpers.status,
      setMessages: (change) => {
        this.#setMessages(change, earlier.count);
      },
      sendMessage: this.#sendMessage,
      regenerate: this.#regenerate,
      addToolOutput: this.#addToolOutput,
      fermata: this.chat,
      earlier,
    };
  }

  /**
   * Only the last message can have calls that are not settled. Its parts are copied, because the AI SDK goes
   * on writing in those of a message's beginning, and assistant-ui would see a call that has not been
   * presented.
   */
  messages(messages: UIMessage[], questions: readonly Question[]): UIMessage[] {
    const last = messages.at(-1);
    if (last?.role !== 'assistant') return messages;
    const parts = last.parts.map((part) => (isToolUIPart(part) ? this.#part(part, questions) : { ...part }));
    return [...messages.slice(0, -1), { ...last, parts }];
  }

  #part(part: ToolPart, questions: readonly Question[]): Part {
    if (part.state === 'approval-requested') {
      const approval = { ...part.approval, options: APPROVAL_OPTIONS };
      return { ...part, approval };
    }
    const question =
      part.state === 'input-available'
        ? questions.find(({ toolCallId }) => toolCallId === part.toolCallId)
        : undefined;
    if (question === undefined) return { ...part };
    // Where there is an approval, be it an old one, assistant-ui shows no question.
    const shown = { ...part, toolCallId: question.shownAs };
    delete shown.approval;
    return shown;
  }

  #waits(part: ToolPart, questions: readonly Question[]): boolean {
    if (part.state === 'approval-requested') return true;
    if (part.state !== 'input-available') return false;
    return (
      this.page.hasUiOnly(getToolName(part)) ||
      questions.some(({ toolCallId }) => toolCallId === part.toolCallId)
    );
  }

  // === what assistant-ui does ===

  respond: Respond = async ({ approvalId, approved, optionId, reason }) => {
    await this.chat.addToolApprovalResponse({
      id: approvalId,
      approved,
      ...(approved && optionId === 'always' && { always: true }),
      ...(reason !== undefined && { reason }),
    });
  };

  #addToolOutput: ChatHelpers['addToolOutput'] = async (output) => {
    const toolCallId = toolCallIdOf(output.toolCallId);
    const isError = output.state === 'output-error';
    // What assistant-ui says of a question is that there is no output, or an error where it has given the
    // question up.
    if (isError ? toolCallId !== output.toolCallId : output.output === NO_OUTPUT) return;
    await this.chat.addToolOutput({ ...output, toolCallId });
  };

  /**
   * Either way it is about what assistant-ui has. A function changes the messages as they are; a list may be
   * older, or another branch: of that, only how much of the chat the next post keeps is taken.
   */
  #setMessages(change: Parameters<ChatHelpers['setMessages']>[0], earlier: number) {
    const { messages } = this.chat;
    const own = typeof change === 'function' ? change(messages.slice(earlier)) : change;
    const changed = [...messages.slice(0, earlier), ...own];
    const isCut =
      changed.length < messages.length &&
      changed.every((message, index) => message.id === messages[index]?.id);
    if (isCut) {
      this.#kept = changed.length;
      // The post is made at once; whatever else cuts messages off has no effect on the record.
      queueMicrotask(() => (this.#kept = undefined));
    } else if (typeof change === 'function') {
      this.chat.messages = changed;
    }
  }

  /** Cuts off what is to be posted anew; the first message that is. */
  #cut(): UIMessage | undefined {
    if (this.#kept === undefined) return undefined;
    const first = this.chat.messages[this.#kept];
    this.chat.messages = this.chat.messages.slice(0, this.#kept);
    this.#kept = undefined;
    return first;
  }

  #sendMessage: ChatHelpers['sendMessage'] = (message, options) => {
    const replaced = this.#cut();
    if (replaced?.role !== 'user' || message?.parts === undefined)
      return this.chat.sendMessage(message, options);
    // The server knows an edited message by its id.
    return this.chat.sendMessage({ ...message, id: replaced.id }, options);
  };

  #regenerate: ChatHelpers['regenerate'] = (options) => {
    this.#cut();
    return this.chat.regenerate(options);
  };
}

/** The calls of a message's last step. */
function lastStep(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== 'assistant') return [];
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return message.parts.slice(start + 1).filter(isToolUIPart);
}

// === what the page's components have registered ===

/** What `human()` asks, and the id of the call under which assistant-ui shows it. */
interface Question {
  toolCallId: string;
  shownAs: string;
  payload: unknown;
  answer: (payload: unknown) => void;
}

/** What a tool is called with. */
interface Call {
  toolCallId: string;
  human: (payload: unknown) => Promise<unknown>;
}

type StreamCall = (reader: unknown, call: Call) => unknown;

/** What assistant-ui is given for a call that it has not to run. */
const NO_OUTPUT = 'fermata: no output';

/** Whether the page has to do with a tool's calls: it runs them, or its UI answers them. */
const isForPage = (_name: string, { type, disabled }: Tool) =>
  disabled !== true && (type === undefined || type === 'frontend' || type === 'human');

/**
 * The tools of the page, run for the chat, which knows when, and in which tab.
 *
 * assistant-ui would run them by itself, but only in a run that has ended, not side by side with one that
 * began before, and never where somebody was asked. So `execute` is taken away from it, but for one thing
 * that nobody else can do: having a call show what `human()` asks. The call is then shown under an id that
 * assistant-ui has not seen, and what it runs for that id passes the question on.
 */
class Page {
  #runtime: AssistantRuntime | undefined;
  #isReading = false;
  #questions: readonly Question[] = [];
  #asked = 0;
  readonly #listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  questions = () => this.#questions;

  attach(runtime: AssistantRuntime): () => void {
    this.#runtime = runtime;
    return runtime.registerModelContextProvider({ getModelContext: () => this.#substitutes() });
  }

  /** What a post has. */
  settings(): object {
    const { system, callSettings, config, tools } = this.#context;
    const schemas = toToolsJSONSchema(tools, { filter: isForPage });
    return {
      ...(system !== undefined && { system }),
      ...(callSettings !== undefined && { callSettings }),
      ...(config !== undefined && { config }),
      ...(Object.keys(schemas).length > 0 && { tools: schemas }),
    };
  }

  tools(repeatable: readonly string[]): Record<string, BrowserTool> {
    const { tools = {} } = this.#context;
    const schemas = toToolsJSONSchema(tools, { filter: isForPage });
    const entries = Object.entries(schemas).map(
      ([name, { parameters: inputSchema }]): [string, BrowserTool] => {
        const tool = tools[name];
        const execute = tool?.execute && runner(name, tool, (...question) => this.#ask(...question));
        return [name, { inputSchema, repeatable: repeatable.includes(name), ...(execute && { execute }) }];
      },
    );
    return Object.fromEntries(entries);
  }

  /** Whether calls of a tool are answered by its UI alone. */
  hasUiOnly(name: string): boolean {
    const tool = this.#context.tools?.[name];
    return tool !== undefined && isForPage(name, tool) && tool.execute === undefined;
  }

  /** As the components have registered it. */
  get #context(): ModelContext {
    this.#isReading = true;
    try {
      return this.#runtime?.thread.getModelContext() ?? {};
    } finally {
      this.#isReading = false;
    }
  }

  /** What assistant-ui has instead of the tools that the page runs. */
  #substitutes(): ModelContext {
    if (this.#isReading) return {};
    const { tools = {} } = this.#context;
    const own = Object.entries(tools).filter(([, tool]) => tool.execute !== undefined);
    return {
      priority: Number.MAX_VALUE,
      tools: Object.fromEntries(own.map(([name, tool]) => [name, this.#substitute(tool)])),
    };
  }

  /** It takes the place of what it names; the rest of the tool stays. */
  #substitute(tool: Tool): Tool {
    const { streamCall } = tool as { streamCall?: StreamCall };
    const isQuestion = (shownAs: string) => this.#questions.some((question) => question.shownAs === shownAs);
    const own: StreamCall = (reader, call) => !isQuestion(call.toolCallId) && streamCall?.(reader, call);
    const substitute: object = {
      type: 'frontend',
      parameters: { type: 'object' },
      execute: (_input: unknown, call: Call) => this.#passOn(call.toolCallId, call.human),
      toModelOutput: undefined,
      ...(streamCall && { streamCall: own }),
    };
    return substitute as Tool;
  }

  async #passOn(shownAs: string, human: (payload: unknown) => Promise<unknown>): Promise<string> {
    const question = this.#questions.find((question) => question.shownAs === shownAs);
    // assistant-ui gives up what it runs when the person sends something or stops; then the run ends, and the
    // question with it.
    const answer = (payload: unknown) => question?.answer(payload);
    if (question !== undefined) await human(question.payload).then(answer, () => undefined);
    return NO_OUTPUT;
  }

  #ask(toolCallId: string, payload: unknown, signal: AbortSignal): Promise<unknown> {
    const ended = () => new Error('The run was ended before the person answered.');
    if (signal.aborted) return Promise.reject(ended());
    return new Promise((resolve, reject) => {
      const question: Question = {
        toolCallId,
        shownAs: `${toolCallId}~${++this.#asked}`,
        payload,
        answer: (answer) => {
          this.#show(this.#questions.filter((other) => other !== question));
          resolve(answer);
        },
      };
      signal.addEventListener('abort', () => {
        this.#show(this.#questions.filter((other) => other !== question));
        reject(ended());
      });
      this.#show([...this.#questions, question]);
    });
  }

  #show(questions: readonly Question[]) {
    this.#questions = questions;
    for (const listener of this.#listeners) listener();
  }
}

type Ask = (toolCallId: string, payload: unknown, signal: AbortSignal) => Promise<unknown>;
type RunnableMessage = Parameters<typeof runPendingTools>[0];

/**
 * Runs a tool as assistant-ui does: its input validated, its output as it was, or with what the model is to
 * read of it.
 */
const runner =
  (name: string, tool: Tool, ask: Ask): NonNullable<BrowserTool['execute']> =>
  async (input, { toolCallId, signal }) => {
    const call = {
      type: 'tool-call',
      state: 'call',
      toolCallId,
      toolName: name,
      args: input,
      argsText: JSON.stringify(input),
    };
    const message = { role: 'assistant', parts: [call], content: [call] } as unknown as RunnableMessage;
    const human = (_id: string, payload: unknown) => ask(toolCallId, payload, signal);
    const done = await runPendingTools(message, { [name]: tool }, signal, human);
    const outcome = done.parts.find((part) => part.type === 'tool-call');
    const { result, isError, modelContent } = (outcome ?? {}) as {
      result?: unknown;
      isError?: boolean;
      modelContent?: unknown;
    };
    if (isError === true) throw new Error(typeof result === 'string' ? result : JSON.stringify(result));
    return modelContent === undefined ? result : { __aui_modelContent: modelContent, value: result };
  };

// === the hook ===

const threadHook = (threads: Threads) =>
  function useThisThread() {
    return useThread(threads);
  };

/**
 * Which messages assistant-ui does not have yet: those before the newest at the time that the chat was
 * loaded.
 */
function useEarlier(length: number, newest = Infinity): Earlier {
  const [first, setFirst] = useState<number>();
  if (first === undefined && length > 0) setFirst(Math.max(0, length - newest));
  const count = Math.min(first ?? 0, Math.max(0, length - newest));
  const show = () => {
    setFirst(Math.max(0, count - newest));
  };
  return { count, show };
}

/** A thread's runtime; assistant-ui calls this hook for each thread that was shown. */
function useThread(threads: Threads): AssistantRuntime {
  const threadId = useAuiState((state) => state.threadListItem.id);
  const remoteId = useAuiState((state) => state.threadListItem.remoteId);
  const isMain = useAuiState((state) => state.threads.mainThreadId === state.threadListItem.id);
  const [thread] = useState(() => new Thread(remoteId ?? threads.idOf(threadId), threads.options));
  const [isKnown] = useState(remoteId !== undefined);
  const helpers = useChat({ chat: thread.chat, throttle: threads.options.throttle ?? 30 });
  const questions = useSyncExternalStore(thread.page.subscribe, thread.page.questions, thread.page.questions);
  const earlier = useEarlier(helpers.messages.length, threads.options.newest);
  const messages = useMemo(
    () => thread.messages(helpers.messages.slice(earlier.count), questions),
    [thread, helpers.messages, earlier.count, questions],
  );
  const presented = thread.present(helpers, messages, questions, earlier);
  const runtime = useAISDKRuntime(presented, {
    ...threads.options.runtime,
    onRespondToToolApproval: thread.respond,
  });
  useEffect(() => thread.page.attach(runtime), [thread, runtime]);
  // A chat in the background is followed as long as something goes on in it, but not while it waits: a
  // browser has six connections for a server that does not speak HTTP/2, and there may be more chats that
  // wait. A new one is followed from its first message on.
  const isBusy = presented.status === 'submitted' || presented.status === 'streaming';
  const isFollowed = (isMain || isBusy) && (isKnown || helpers.messages.length > 0);
  useEffect(() => (isFollowed ? thread.follow() : undefined), [thread, isFollowed]);
  return runtime;
}
