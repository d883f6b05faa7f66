// Fermata for pages that use the AI SDK's chat, version 5, 6 or 7.

import type { AbstractChat, ChatInit, UIMessage } from 'ai';
import { approvalsOf, readMe, type Approvals, type Me } from './approvals.js';
import { listAssistants, type Assistant } from './assistants.js';
import { followedChat, type FermataChat } from './chat.js';
import { memoriesOf, type Memories } from './memories.js';
import { pushOf, type Push } from './push.js';
import { Server } from './server.js';
import { compactChat, correctSummary, readSummary, type ChatSummary, type Summary } from './summaries.js';
import type { FermataOptions } from './transport.js';

export type { Always, ApprovalResponse, ElicitationAnswer, ToolOutput } from './answers.js';
export { isWaitingFor, type Approval, type ApprovalState, type Settlement } from './approval.js';
export type { ApprovalEvent, ApprovalFilter, ApprovalPage, Approvals, Me, Vote } from './approvals.js';
export type { Assistant, Chosen } from './assistants.js';
export {
  askedCall,
  noOutputOf,
  type ApprovalDecision,
  type AskedCall,
  type CallStatus,
  type FailureStrategy,
  type NoOutput,
  type ReasonCode,
  type Scope,
} from './calls.js';
export type { FermataChat } from './chat.js';
export {
  memoryOf,
  type Memories,
  type Memory,
  type MemoryChange,
  type MemoryFilter,
  type MemoryKind,
  type MemoryOrigin,
  type MemoryPage,
  type MemoryUse,
  type MentionedMemory,
  type NewMemory,
} from './memories.js';
export type { Compaction, ContextUsage, SummaryReason } from './context.js';
export { editedText, isNumberReadExactly, isReadExactly } from './exact.js';
export type { Followed } from './followed.js';
export { ApprovalInbox, type Inbox, type InboxStatus } from './inbox.js';
export type { GivenBack, Unsent } from './known.js';
export type { CallDetails, ChatRecord, InputPreview, Pending, RefusedPart } from './record.js';
export type { Push } from './push.js';
export { planOf, type Plan, type PlanStep, type RunStatus, type Stage } from './runs.js';
export { FermataError, type RefusedPlace, type ServerOptions } from './server.js';
export type { ChatSummary, Summary } from './summaries.js';
export { FermataTransport, type BrowserTool, type Connection, type FermataOptions } from './transport.js';

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
  /** Lists the assistants, with `default` first. The list is empty if the server is of a version that has none. */
  assistants(): Promise<Assistant[]>;
  /** The approvals that the person has requested or may decide about, of all chats. A server of an earlier version answers 404. */
  readonly approvals: Approvals;
  /** Push notifications: the key of a subscription, and the browsers of the person. */
  readonly push: Push;
  /** Reads the user that the server takes the requests for; `undefined` if the server is of a version that does not say. */
  me(): Promise<Me | undefined>;
  /** The memories of the person: listed, searched, changed, and undone. A server without memory answers 404. */
  readonly memories: Memories;
  /** Reads the summary of a chat; `undefined` if it has none. A chat follows its own: `chat.summary`. */
  summary(chatId: string): Promise<ChatSummary | undefined>;
  /** Replaces the text of a chat's summary. */
  correctSummary(chatId: string, summary: Partial<Summary>): Promise<ChatSummary>;
  /** Has a summary of a chat written now; `instructions` say what it has to mind. */
  compact(chatId: string, instructions?: string): Promise<ChatSummary>;
}

/** Connects chats with a Fermata server. */
export function fermata(options: FermataOptions = {}): Fermata {
  const server = new Server(options);
  return {
    chat: (Chat, init) => followedChat(options, Chat, init),
    request: (path, init) => server.json(path, init),
    assistants: () => listAssistants(server),
    approvals: approvalsOf(server),
    push: pushOf(server),
    me: () => readMe(server),
    memories: memoriesOf(server),
    summary: (chatId) => readSummary(server, chatId),
    correctSummary: (chatId, summary) => correctSummary(server, chatId, summary),
    compact: (chatId, instructions) => compactChat(server, chatId, instructions),
  };
}
