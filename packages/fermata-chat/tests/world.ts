// A model API that checks what it is asked, the built server behind it, and tabs of one browser in front:
// each with the AI SDK's own chat, its messages kept in memory where React or Vue would keep them, and the
// helper around it.

import { AbstractChat, type ChatInit, type ChatState, type ChatStatus, type UIMessage } from 'ai';
import { expect } from 'vitest';
import { API_KEY, FakeOpenAi } from '../../../e2e/harness/fake-openai.mjs';
import { freePort } from '../../../e2e/harness/ports.mjs';
import { Server } from '../../../e2e/harness/server.mjs';
import { until } from '../../../e2e/harness/until.mjs';
import {
  fermata,
  noOutputOf,
  type BrowserTool,
  type Connection,
  type FermataChat,
  type Pending,
} from '../src/index.js';
import { Browser } from './browser';

declare const AI_VERSION: string;

/** The version of `ai` that the helper is tested with. */
export const version = AI_VERSION;
export const client = Number(version.split('.')[0]) as 5 | 6 | 7;

export { calls, says, refuses } from '../../../e2e/harness/fake-openai.mjs';
export { gate, until } from '../../../e2e/harness/until.mjs';

/** What all versions have in common in a part. */
export interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  state?: string;
  input?: unknown;
  output?: unknown;
  errorText?: string;
  approval?: { id: string; approved?: boolean };
  data?: { approvalId: string; toolCallId: string; toolName: string };
}

class State implements ChatState<UIMessage> {
  /** Each status that the chat has had, in order. */
  readonly statuses: ChatStatus[] = ['ready'];
  error: Error | undefined = undefined;

  constructor(public messages: UIMessage[]) {}

  get status() {
    return this.statuses.at(-1) ?? 'ready';
  }

  set status(status: ChatStatus) {
    if (status !== this.status) this.statuses.push(status);
  }

  pushMessage = (message: UIMessage) => {
    this.messages = [...this.messages, structuredClone(message)];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

export class MemoryChat extends AbstractChat<UIMessage> {
  readonly statuses: readonly ChatStatus[];

  constructor({ messages, ...init }: ChatInit<UIMessage>) {
    const state = new State(messages ?? []);
    super({ ...init, state });
    this.statuses = state.statuses;
  }
}

export interface TabOptions {
  tools?: Record<string, BrowserTool>;
  hold?: string;
  /** How long its streams may be silent, in milliseconds. */
  silence?: number;
  onToolCall?: () => void;
  onConnection?: () => void;
}

/** A tab of the browser with one chat in it. */
export class Tab {
  /** `POST /api/chat`, `POST …/tool-result`, `GET …/stream`, …, in order. */
  requests: string[] = [];
  /** How many messages each post carried. */
  posted: number[] = [];
  /** What each post said to Fermata itself. */
  said: object[] = [];
  errors: Error[] = [];
  connections: Connection[] = [];
  /** Whether no request gets through. */
  isOffline = false;
  /** What a request waits for before it is made. */
  before: (request: string) => Promise<void> = () => Promise.resolve();
  /** What its answer waits for before the page has it. */
  after: (request: string) => Promise<void> = () => Promise.resolve();
  chat: MemoryChat & FermataChat;
  #connections = new Set<AbortController>();
  #leave = () => {};

  constructor(
    readonly url: string,
    readonly id: string,
    { tools = {}, hold, silence, onToolCall, onConnection }: TabOptions,
  ) {
    const server = fermata({
      api: `${url}/api/chat`,
      tools,
      ...(hold !== undefined && { hold }),
      ...(silence !== undefined && { silence }),
      fetch: (target, init) => this.#fetch(target as string, init),
      onConnection: (connection) => {
        this.connections.push(connection);
        onConnection?.();
      },
    });
    this.chat = server.chat(MemoryChat, {
      id,
      onError: (error) => this.errors.push(error),
      ...(onToolCall && { onToolCall }),
    });
  }

  /** What a page does when it appears. */
  open() {
    this.#leave = this.chat.open();
  }

  /** The tab is closed. */
  close() {
    this.#leave();
    this.isOffline = true;
    this.cut();
  }

  /** Answers a call as somebody else, past the page. */
  async tell(answer: object) {
    const body = JSON.stringify({ chatId: this.id, ...answer });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${this.url}/api/chat/tool-result`, { method: 'POST', headers, body });
    expect(response.status).toBe(200);
  }

  say(words: string) {
    void this.chat.sendMessage({ text: words });
  }

  /** Every connection breaks. */
  cut() {
    for (const connection of this.#connections) connection.abort(new TypeError('network error'));
    this.#connections.clear();
  }

  get parts(): Part[] {
    return this.chat.messages.flatMap((message) => message.parts as Part[]);
  }

  get words() {
    return this.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  }

  count(request: string) {
    return this.requests.filter((made) => made === request).length;
  }

  /** Waits until a call of a tool is in a state. */
  async shows(tool: string, state: string): Promise<Part & { toolCallId: string }> {
    const found = await until(
      () => this.parts.find((part) => part.type === `tool-${tool}` && part.state === state),
      () => `${tool} ${state}; ${this.outline}`,
    );
    return found as Part & { toolCallId: string };
  }

  /** Waits until the person is asked about a tool; the id of the question. */
  async isAsked(tool: string): Promise<string> {
    if (client > 5) return (await this.shows(tool, 'approval-requested')).approval?.id ?? '';
    const isIt = (part: Part) => part.type === 'data-tool-approval' && part.data?.toolName === tool;
    const found = await until(
      () => this.parts.find(isIt),
      () => `a question about ${tool}; ${this.outline}`,
    );
    return found.data?.approvalId ?? '';
  }

  async reads(words: string) {
    await until(
      () => this.words.includes(words),
      () => `"${words}"; ${this.outline}`,
    );
  }

  /** Waits until no stream is read, and none is about to be. */
  async rests() {
    const rests = async () => {
      if (this.#isBusy) return false;
      await new Promise((resolve) => setTimeout(resolve, 30));
      return !this.#isBusy;
    };
    await until(rests, () => `rest; it is ${this.chat.status}; ${this.outline}`);
  }

  get #isBusy() {
    return (
      this.chat.status === 'streaming' ||
      this.chat.status === 'submitted' ||
      this.chat.connection !== 'closed'
    );
  }

  get outline() {
    const parts = this.parts.map(({ type, state, text }) => [type, state, text].filter(Boolean).join(' '));
    return `shown: ${parts.join(', ')}; made: ${this.requests.join(', ')}; errors: ${this.errors.join(', ')}`;
  }

  async #fetch(target: string, init: RequestInit = {}): Promise<Response> {
    const [path = ''] = target.slice(this.url.length).replace(`/${this.id}`, '').split('?');
    const request = `${init.method ?? 'GET'} ${path}`;
    this.requests.push(request);
    if (request === 'POST /api/chat') {
      const body = JSON.parse(init.body as string) as { messages: unknown[]; fermata: object };
      this.posted.push(body.messages.length);
      this.said.push(body.fermata);
    }
    await Promise.race([this.before(request), aborted(init.signal)]);
    if (this.isOffline) throw new TypeError('fetch failed');
    const connection = new AbortController();
    this.#connections.add(connection);
    const given = init.signal;
    const signal = given ? AbortSignal.any([given, connection.signal]) : connection.signal;
    try {
      const response = await fetch(target, { ...init, signal });
      await this.after(request);
      return response;
    } catch (error) {
      throw connection.signal.aborted ? new TypeError('fetch failed') : error;
    }
  }
}

/** Fails when a request is given up. */
const aborted = (signal: AbortSignal | null | undefined) =>
  new Promise<never>((_, reject) => {
    signal?.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });

interface View {
  messages: UIMessage[];
  pending: Pending[];
  open: boolean;
}

export class World {
  browser = new Browser();
  #tabs: Tab[] = [];

  private constructor(
    readonly model: FakeOpenAi,
    readonly server: Server,
  ) {}

  static async create(settings: Record<string, string> = {}): Promise<World> {
    const model = await FakeOpenAi.start();
    const api = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: API_KEY, FERMATA_MODEL: 'test-model' };
    const server = new Server(await freePort(), { ...api, ...settings });
    await server.start();
    const world = new World(model, server);
    world.browser.install();
    return world;
  }

  tab(options: TabOptions = {}, id = 'chat-1'): Tab {
    const tab = new Tab(this.server.url, id, options);
    this.#tabs.push(tab);
    return tab;
  }

  async view(id = 'chat-1'): Promise<View> {
    const response = await fetch(`${this.server.url}/api/chat/${id}`);
    return (await response.json()) as View;
  }

  /** The tab rests and shows what the server has. */
  async agrees(tab: Tab) {
    await tab.rests();
    await until(
      async () =>
        JSON.stringify(comparable((await this.view(tab.id)).messages)) ===
        JSON.stringify(comparable(tab.chat.messages)),
      'the record to be what the tab shows',
    ).catch(() => undefined);
    expect(comparable(tab.chat.messages)).toEqual(comparable((await this.view(tab.id)).messages));
  }

  async end() {
    for (const tab of this.#tabs) tab.close();
    await this.server.discard();
    await this.model.stop();
    expect(this.model.verdict).toEqual([]);
  }
}

/**
 * Messages without what only one side can know: versions before 7 are not told of decisions that they did not
 * make.
 */
function comparable(messages: UIMessage[]): unknown {
  const plain = JSON.parse(JSON.stringify(messages)) as {
    id: string;
    role: string;
    parts: Part[];
    metadata?: unknown;
  }[];
  return plain.map(({ id, role, metadata, parts }) => ({
    id,
    role,
    noOutput: parts.map(({ toolCallId = '' }) => noOutputOf({ metadata }, toolCallId)),
    parts: parts.map(({ type, text, toolCallId, state, input, output, errorText, data }) => ({
      type,
      ...(text !== undefined && { text }),
      ...(toolCallId !== undefined && { toolCallId, state, input, output, errorText }),
      ...(data !== undefined && { data }),
    })),
  }));
}
