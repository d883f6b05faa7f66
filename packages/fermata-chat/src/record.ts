// The record of a chat: what the server has of it, and whether a run of it is open.

import type { AbstractChat, UIMessage } from 'ai';
import { decisionOf, type ApprovalDecision, type CallStatus, type ReasonCode, type Scope } from './calls.js';
import type { ContextUsage } from './context.js';
import { hasOpenCall } from './parts.js';
import type { RunStatus } from './runs.js';
import { FermataError, retry, type Server } from './server.js';

/**
 * A part of the chat that the provider of a model refused. The model answered without it, and does not receive it any more. The metadata of
 * the answer lists them as `refused`.
 */
export interface RefusedPart {
  type: 'file' | 'tool-result' | 'message';
  model: string;
  /** The message that has the part. */
  in?: string;
  filename?: string;
  mediaType?: string;
  toolCallId?: string;
  /** The provider's words, if the server shows them. */
  reason?: string;
}

/** A chat as `GET /api/chat/{id}` has it. */
export interface ChatRecord extends Partial<RunStatus> {
  messages: UIMessage[];
  pending: Pending[];
  open: boolean;
  /** The assistant and the model that the chat has chosen. */
  assistant?: string;
  model?: string;
  /** The fill of the model's window after the newest step; absent if the server does not know. */
  context?: ContextUsage;
}

/** The effect of a call, as its tool describes it; `before` and `after` are the two texts of an edit. */
export interface CallDetails {
  kind: 'edit' | 'run' | 'send' | 'info';
  text: string;
  before?: string;
  after?: string;
}

/** A call as it would be with another input, and what the rules say of it. */
export interface InputPreview {
  /** The call in the words of its tool. */
  description?: string;
  details?: CallDetails;
  decision: 'ask' | 'allow' | 'deny';
}

/** The requests that wait for somebody, as `GET /api/chat/{id}/pending` has it. */
export interface Pending {
  id: string;
  toolCallId: string;
  tool: string;
  /** The MCP server that offers the tool, or that asks. */
  server?: string;
  /** The title of the tool. That of an MCP tool is the server's own text, and may say anything. */
  title?: string;
  /** The call in the words of its tool. */
  description?: string;
  /** The effect of the call. */
  details?: CallDetails;
  input: unknown;
  /** The input as the JSON text that runs. */
  inputText: string;
  /** The scopes that "always" can have for an approval, the narrowest first; absent if the call cannot be allowed for always. */
  scopes?: Scope[];
  kind: 'approval' | 'output' | 'elicitation';
  state: string;
  since: string;
  expires?: string;
  approvalId?: string;
  /** Why a person is asked, in the words of the rule that asks. */
  reason?: string;
  /** The code of the reason to ask. */
  reasonCode?: ReasonCode;
  /** The words of others in the reason. */
  reasonDetail?: string;
  /** Who decides about an approval. Absent from servers that do not say. */
  decision?: ApprovalDecision;
  /** The question of an elicitation. */
  message?: string;
  /** The author of the question. */
  asks?: 'assistant' | 'tool' | 'mcp';
  /** The name of a message that Fermata has written. */
  code?: 'call_failed';
  /** The failure that a message with the code `call_failed` is about. */
  errorType?: string;
  errorText?: string;
  requestedSchema?: object;
}

/** Returns the status of the call that waits. */
export function statusOf(pending: Pending): CallStatus {
  const { tool, server, title, state } = pending;
  const call = {
    tool,
    ...(server !== undefined && { server }),
    ...(title !== undefined && { title }),
    state: state as CallStatus['state'],
  };
  switch (pending.kind) {
    case 'approval': {
      const { input, inputText, scopes = [], reasonCode, reasonDetail } = pending;
      const why = {
        ...(reasonCode !== undefined && { reasonCode }),
        ...(reasonDetail !== undefined && { reasonDetail }),
      };
      const decision = decisionOf(pending.decision);
      const waitsFor = decision?.mayDecide === false ? 'other_people' : 'person';
      return { ...call, input, inputText, scopes, ...why, ...(decision && { decision }), waitsFor };
    }
    case 'output':
      return { ...call, waitsFor: 'page' };
    case 'elicitation':
      return { ...call, waitsFor: 'person' };
    default:
      return pending.kind satisfies never;
  }
}

/**
 * Reads the record, and tries again while `goesOn` returns `true`.
 *
 * @throws FermataError with the code `not_found` if there is no such chat.
 */
export async function readRecord(
  server: Server,
  chatId: string,
  goesOn?: (attempt: number) => boolean,
  signal?: AbortSignal,
): Promise<ChatRecord> {
  // A chat that does not exist is no error to the browser, which would log it.
  const url = server.chatUrl(chatId, '?optional=true');
  const record = await retry(() => server.json<ChatRecord | undefined>(url), goesOn, signal);
  if (record === undefined) throw new FermataError(404, 'not_found', 'There is no chat with this id.');
  return record;
}

/** Reads the record for a page that answers meanwhile. */
export class RecordReader {
  readonly #server: Server;
  readonly #chatId: string;
  /** The number of answers sent or taken: a record that was asked for before may be without it. */
  #answers = 0;
  /** Done when what is asked of older messages is shown. */
  #settled: Promise<void> = Promise.resolve();

  constructor(server: Server, chatId: string) {
    this.#server = server;
    this.#chatId = chatId;
  }

  /** Reads the record, with all answers that this page has given. */
  async read(goesOn?: (attempt: number) => boolean): Promise<ChatRecord> {
    for (;;) {
      const before = this.#answers;
      const record = await readRecord(this.#server, this.#chatId, goesOn);
      if (this.#answers === before) return record;
    }
  }

  /** An answer is sent, or was taken. */
  noteAnswer() {
    this.#answers++;
  }

  /**
   * Shows what became of messages that a new one has left behind, if one of them was superseded or has a call that is open: their own stream
   * has ended without a word of it. If the record cannot be had now, the next loading has it.
   *
   * One look follows another. Otherwise an older record could take the place of a newer one, and before the first one comes, the page may
   * show a call as over that is not: assistant-ui cancels open calls by itself when a message is sent.
   */
  settleOlder(chat: AbstractChat<UIMessage>, { isSuperseded = false } = {}) {
    const settle = async () => {
      if (!isSuperseded && !chat.messages.slice(0, -1).some(hasOpenCall)) return;
      const { messages } = await this.read();
      const stored = new Map(messages.map((message) => [message.id, message]));
      chat.messages = chat.messages.map((message, index, { length }) =>
        index < length - 1 ? (stored.get(message.id) ?? message) : message,
      );
    };
    this.#settled = this.#settled.then(settle).catch(() => undefined);
  }
}
