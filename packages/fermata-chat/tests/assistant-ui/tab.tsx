// A tab of the browser with assistant-ui in it: the real packages, rendered by React, on the runtime that is
// tested.

import './dom';
import { isDeepStrictEqual } from 'node:util';
import {
  AssistantRuntimeProvider,
  useAui,
  type AssistantRuntime,
  type Tool as AnyTool,
} from '@assistant-ui/react';
import { StrictMode, useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import type { UIMessage } from 'ai';
import { expect } from 'vitest';
import {
  useFermataThread,
  useFermataEarlier,
  useFermataRuntime,
  type AssistantChat,
  type Earlier,
  type FermataRuntimeOptions,
} from '../../src/assistant-ui.js';
import { until, World } from '../world';

/** A tool as components register it. */
export type AssistantTool = AnyTool & { toolName: string };
type ThreadMessage = ReturnType<AssistantRuntime['thread']['getState']>['messages'][number];
export type ToolCall = Extract<ThreadMessage['content'][number], { type: 'tool-call' }>;

/** A tool that assistant-ui runs. */
export const frontend = (toolName: string, execute?: AssistantTool['execute']): AssistantTool => ({
  toolName,
  type: 'frontend',
  parameters: { type: 'object', properties: {} },
  ...(execute && { execute }),
});

interface TabOptions extends FermataRuntimeOptions {
  tools?: AssistantTool[];
}

export class AssistantTab {
  /** What was asked of the server, in order, without the chat's id. */
  requests: string[] = [];
  bodies: Record<string, unknown>[] = [];
  /** The chats that the page was told are shown. */
  shown: (string | undefined)[] = [];
  runtime!: AssistantRuntime;
  /** What a request waits for before it is made. */
  before: (path: string) => Promise<void> = () => Promise.resolve();
  /** What assistant-ui does not have. */
  earlier: Earlier = { count: 0, show: () => undefined };
  #chat: AssistantChat | undefined;
  readonly #root = createRoot(document.createElement('div'));
  readonly #connections = new AbortController();

  constructor(
    readonly world: World,
    readonly options: TabOptions = {},
  ) {
    this.show(options.threadId);
  }

  /** Has a chat shown, as a page does that takes it from the URL. */
  show(threadId: string | undefined) {
    this.#root.render(
      <StrictMode>
        <Page tab={this} threadId={threadId} />
      </StrictMode>,
    );
  }

  /** The tab is closed. */
  close() {
    this.#root.unmount();
    this.#connections.abort(new TypeError('network error'));
  }

  take = (runtime: AssistantRuntime, chat: AssistantChat | undefined, earlier: Earlier) => {
    this.runtime = runtime;
    this.#chat = chat;
    this.earlier = earlier;
  };

  async begun() {
    await until(() => this.#chat !== undefined, 'the runtime');
    return this;
  }

  get chat(): AssistantChat {
    if (this.#chat === undefined) throw new Error('there is no chat yet');
    return this.#chat;
  }

  get thread() {
    return this.runtime.thread;
  }

  async say(words: string) {
    await this.begun();
    this.thread.append(words);
  }

  get messages(): readonly ThreadMessage[] {
    return this.thread.getState().messages;
  }

  get calls(): ToolCall[] {
    return this.messages.flatMap((message) => message.content.filter((part) => part.type === 'tool-call'));
  }

  get words() {
    return this.messages
      .flatMap((message) => message.content.map((part) => (part.type === 'text' ? part.text : '')))
      .join(' ');
  }

  count(request: string) {
    return this.requests.filter((made) => made === request).length;
  }

  async reads(words: string) {
    await until(
      () => this.words.includes(words),
      () => `"${words}"; ${this.outline}`,
    );
  }

  /** Waits until assistant-ui shows a call of a tool so. */
  async shows(tool: string, is: (call: ToolCall) => boolean): Promise<ToolCall> {
    return until(
      () => this.calls.find((call) => call.toolName === tool && is(call)),
      () => `${tool}; ${this.outline}`,
    );
  }

  asks = (tool: string) =>
    this.shows(tool, ({ approval }) => approval !== undefined && approval.approved === undefined);

  /** What a tool's UI can do. */
  part(call: ToolCall) {
    const index = this.messages.findIndex((message) =>
      message.content.some(
        (part) => part === call || ('toolCallId' in part && part.toolCallId === call.toolCallId),
      ),
    );
    return this.thread.getMessageByIndex(index).getMessagePartByToolCallId(call.toolCallId);
  }

  /** The page rests, and shows what the server has. */
  async agrees() {
    const rests = () => this.chat.status === 'ready' && this.chat.connection === 'closed';
    await until(rests, () => `rest; ${this.outline}`);
    const record = async () => plain((await this.world.view(this.chat.id)).messages);
    await until(async () => isDeepStrictEqual(await record(), plain(this.chat.messages)), 'the record').catch(
      () => undefined,
    );
    expect(plain(this.chat.messages)).toEqual(await record());
    expect(this.messages.map(({ id }) => id)).toEqual(
      this.chat.messages.slice(this.earlier.count).map(({ id }) => id),
    );
    await until(
      () => !this.thread.getState().isRunning,
      () => `the thread not to run; ${this.outline}`,
    );
  }

  get outline() {
    const parts = this.calls.map(({ toolCallId, approval, result, interrupt }) =>
      JSON.stringify({ toolCallId, approval, result, interrupt }),
    );
    const real = this.#chat?.messages
      .at(-1)
      ?.parts.map((part) => `${part.type} ${'state' in part ? (part.state ?? '') : ''}`);
    return (
      `shown: ${this.words}; ${parts.join(', ')}; the chat is ` +
      `${this.#chat?.status ?? 'not there'}: ${real?.join(', ') ?? ''}; made: ` +
      this.requests.join(', ')
    );
  }

  fetch = async (target: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const path = (target as string).slice(this.world.server.url.length);
    const id = this.#chat === undefined ? '' : `/${this.#chat.id}`;
    this.requests.push(`${init.method ?? 'GET'} ${id === '' ? path : path.replace(id, '')}`);
    if (typeof init.body === 'string') this.bodies.push(JSON.parse(init.body) as Record<string, unknown>);
    const signal = init.signal
      ? AbortSignal.any([init.signal, this.#connections.signal])
      : this.#connections.signal;
    await this.before(path);
    return fetch(target, { ...init, signal });
  };
}

function Page({ tab, threadId }: { tab: AssistantTab; threadId: string | undefined }) {
  const runtime = useFermataRuntime({
    ...tab.options,
    threadId,
    api: `${tab.world.server.url}/api/chat`,
    fetch: tab.fetch,
    onThreadIdChange: (shown) => tab.shown.push(shown),
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      {tab.options.tools?.map((tool) => (
        <Tool key={tool.toolName} tool={tool} />
      ))}
      <Probe tab={tab} runtime={runtime} />
    </AssistantRuntimeProvider>
  );
}

function Tool({ tool }: { tool: AssistantTool }) {
  const aui = useAui();
  useEffect(
    () => aui.modelContext.register({ getModelContext: () => ({ tools: { [tool.toolName]: tool } }) }),
    [aui, tool],
  );
  return null;
}

function Probe({ tab, runtime }: { tab: AssistantTab; runtime: AssistantRuntime }) {
  tab.take(runtime, useFermataThread(), useFermataEarlier());
  return null;
}

const NOT_COMPARED = [
  'approval',
  'metadata',
  'providerMetadata',
  'callProviderMetadata',
  'rawInput',
  'createdAt',
];

/**
 * Messages without what only the server, or only the page, need know: a tab is not told of every decision.
 */
function plain(messages: UIMessage[]): unknown {
  return JSON.parse(
    JSON.stringify(messages, (key, value: unknown) => (NOT_COMPARED.includes(key) ? undefined : value)),
  ) as unknown;
}
