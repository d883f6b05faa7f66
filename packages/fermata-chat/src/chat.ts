// A chat of the AI SDK that follows its server. Here are the two seams: what the AI SDK's chat is constructed with, and what it can do
// besides its own.

import type { AbstractChat, ChatInit, UIMessage } from 'ai';
import {
  Answers,
  type ApprovalResponse,
  type ElicitationAnswer,
  type Stock,
  type ToolOutput,
} from './answers.js';
import type { Chosen } from './assistants.js';
import { callStatusIn, type CallStatus } from './calls.js';
import type { Compaction, ContextUsage } from './context.js';
import type { Followed } from './followed.js';
import { ChatFollower } from './follower.js';
import type { GivenBack, Unsent } from './known.js';
import { findCall, isOpen, lastStepOf } from './parts.js';
import type { ChatRecord, InputPreview } from './record.js';
import type { RunStatus } from './runs.js';
import { FermataError, retry } from './server.js';
import { isLeft } from './state.js';
import { compactChat, correctSummary, type ChatSummary, type Summary } from './summaries.js';
import type { Connection, FermataOptions } from './transport.js';

/** The abilities of a Fermata chat that the AI SDK's chat lacks. */
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
  /** Ends the run, even one that only waits. Rejects if the server cannot be reached; the run is then followed again. */
  stop: () => Promise<void>;
  readonly connection: Connection;
  /** The state of a call on the server, and what it waits for; `undefined` if no stream has said so yet. */
  callStatus: (toolCallId: string) => CallStatus | undefined;
  /** Calls a function whenever the status of a call changes; returns what ends that. */
  onCallStatus: (listener: () => void) => () => void;
  /**
   * The fill of the model's window, first from the record of the chat, then from each step. `undefined` if the server does not
   * know, and after `compact`.
   */
  readonly contextUsage: Followed<ContextUsage | undefined>;
  /** The status of the chat's run; `undefined` until the record or a stream reports one. */
  readonly runStatus: Followed<RunStatus | undefined>;
  /** The summary of earlier messages; it is loaded as long as somebody follows it. */
  readonly summary: Followed<ChatSummary | undefined>;
  /** The assistant and the model that the chat has chosen. */
  readonly chosen: Followed<Chosen>;
  /**
   * The last message of the person, until the server has taken it. A page can keep its words in case that it is closed before, and show that
   * the message waits for the network.
   */
  readonly unsent: Followed<Unsent | undefined>;
  /**
   * A message such as "yes" that the server refused because other calls wait for a decision by now, or with the option `givesBack` any
   * message that it refused; `undefined` once another message is sent. It is no longer among the messages. The page puts its words back
   * where they were written, and says why.
   */
  readonly givenBack: Followed<GivenBack | undefined>;
  /** Cancels one running call; the run goes on. Rejects if the call does not run. */
  cancelCall: (toolCallId: string) => Promise<void>;
  /**
   * Tells the chat's other pages that a person edits the input of a call that waits for a decision, or has stopped to. It is believed for 90
   * seconds, so say it again every 30 seconds while the person does. Rejects if the call waits no longer.
   */
  noteEditing: (approvalId: string, isEditing: boolean) => Promise<void>;
  /**
   * Asks how a call that waits for a decision would be shown with this input, as JSON text; nothing changes. Rejects if the input does not fit,
   * or if the call waits no longer.
   */
  previewInput: (approvalId: string, inputText: string, signal?: AbortSignal) => Promise<InputPreview>;
  /** Runs a call that has failed again, in a new answer. Rejects if it has not failed, or if another run is open. */
  retryCall: (toolCallId: string) => Promise<void>;
  /**
   * Deletes a message, and with `after` all later ones. The model receives them no more. Rejects while a run is open.
   */
  deleteMessage: (messageId: string, options?: { after?: boolean }) => Promise<void>;
  /** Drops the open plan, so that later runs do not go on with it. Resolves if there is none. Rejects if a run is open. */
  dropPlan: () => Promise<void>;
  /** Replaces the text of the summary. Rejects if the server refuses it. */
  correctSummary: (summary: Partial<Summary>) => Promise<void>;
  /** Has a summary written now; `instructions` say what it has to mind. Rejects if there is nothing to summarize. */
  compact: (instructions?: string) => Promise<void>;
}

/** The time that a stop waits for the end of the stream before it cuts it off, in milliseconds. */
const STOP_PATIENCE = 2000;

/** The number of requests to stop that a server without an answer gets. */
const STOP_ATTEMPTS = 6;

/** Constructs a chat that follows its server. */
export function followedChat<MESSAGE extends UIMessage, CHAT extends AbstractChat<MESSAGE>>(
  options: FermataOptions,
  Chat: new (init: ChatInit<MESSAGE>) => CHAT,
  given: ChatInit<MESSAGE> & { id: string },
): CHAT & FermataChat {
  const follower = new ChatFollower(options, given.id, {
    runTool: (name, toolCallId, input) => {
      answers.runTool(name, toolCallId, input, true);
    },
    onError: given.onError,
  });
  const answers = new Answers(follower);
  const chat = new Chat({ ...given, ...initOf(follower, answers, given) });
  const {
    addToolOutput,
    addToolApprovalResponse,
    stop: stopReading,
  } = chat as unknown as Stock & { stop: () => Promise<void> };
  follower.chat = chat as unknown as AbstractChat<UIMessage>;
  answers.stock = { addToolOutput, ...(addToolApprovalResponse && { addToolApprovalResponse }) };
  const { known, tabs } = follower;
  const { server } = follower.transport;
  /** Shows a summary that the server has just saved, in all tabs. */
  const showSummary = (summary: ChatSummary) => {
    known.summary.set(summary);
    tabs.tell();
  };
  const more: Omit<FermataChat, 'connection'> = {
    open: (options) => follower.open(options?.isNew === true),
    refresh: () => follower.refresh(),
    addToolOutput: (output) => answers.addToolOutput(output),
    addToolApprovalResponse: (response) => answers.addToolApprovalResponse(response),
    answerElicitation: (answer) => answers.answer({ ...answer }).then(() => undefined),
    stop: () => stop(follower, stopReading),
    callStatus: known.calls.get,
    onCallStatus: known.calls.subscribe,
    contextUsage: known.usage,
    runStatus: known.run,
    cancelCall: (toolCallId) => answers.cancelCall(toolCallId),
    noteEditing: (approvalId, isEditing) => answers.noteEditing(approvalId, isEditing),
    previewInput: (approvalId, inputText, signal) => answers.previewInput(approvalId, inputText, signal),
    retryCall: (toolCallId) => answers.retryCall(toolCallId),
    deleteMessage: async (messageId, options) => {
      const isAfter = options?.after === true;
      const path = `/messages/${encodeURIComponent(messageId)}${isAfter ? '?after=true' : ''}`;
      await unlessGone(server.json(server.chatUrl(follower.id, path), { method: 'DELETE' }));
      const { messages } = follower.chat;
      const at = messages.findIndex(({ id }) => id === messageId);
      // Another tab may have told this one before.
      if (at >= 0)
        follower.chat.messages = messages.filter((_, place) => (isAfter ? place < at : place !== at));
      tabs.tell();
    },
    dropPlan: () => dropPlan(follower),
    summary: known.summary,
    chosen: known.chosen,
    unsent: known.unsent,
    givenBack: known.givenBack,
    correctSummary: async (summary) => {
      showSummary(await correctSummary(server, follower.id, summary));
    },
    compact: async (instructions) => {
      showSummary(await compactChat(server, follower.id, instructions));
      // It was about a request that is not sent again.
      known.usage.set(undefined);
    },
  };
  // The AI SDK has an older name for one of them.
  Object.assign(chat, more, { addToolResult: more.addToolOutput });
  const connection = { get: () => follower.connection };
  return Object.defineProperty(chat, 'connection', connection) as CHAT & FermataChat;
}

/** Connects the AI SDK with the follower: the transport, and handlers for what a stream brings. They call those of the page as well. */
function initOf<MESSAGE extends UIMessage>(
  follower: ChatFollower,
  answers: Answers,
  given: ChatInit<MESSAGE>,
): Partial<ChatInit<MESSAGE>> {
  const { known, record } = follower;
  return {
    transport: follower.transport,
    sendAutomaticallyWhen: ({ messages }) => {
      const { phase, isStale } = follower.state;
      // A request or a stream that is open brings the rest as well.
      if (phase.name !== 'idle' || isStale || isLeft(follower.state)) return false;
      // An answer that this page gave goes on only if the chat is posted again.
      const calls = lastStepOf(messages.at(-1));
      return calls.some((part) => follower.answered.has(part.toolCallId)) && !calls.some(isOpen);
    },
    onToolCall: ({ toolCall }) => {
      void given.onToolCall?.({ toolCall });
      const { toolName, toolCallId, input } = toolCall;
      const { phase } = follower.state;
      answers.runTool(toolName, toolCallId, input, !(phase.name === 'reading' && phase.isFresh));
    },
    onData: (part) => {
      const { type, data } = part as { type: string; data: unknown };
      if (type === 'data-call') {
        const { toolCallId, status } = callStatusIn(data);
        known.calls.set(toolCallId, status);
        // A call that was approved in words has its outcome in an earlier message, which no stream changes.
        if (['success', 'error', 'cancelled'].includes(status.state)) record.settleOlder(follower.chat);
      } else if (type === 'data-run') {
        known.run.set(data as RunStatus);
      } else if (type === 'data-context') {
        known.usage.set(data as ContextUsage);
      } else {
        if (type === 'data-compaction' && (data as Compaction).state === 'done')
          known.summary.refresh(follower.chat.messages.length);
        given.onData?.(part);
      }
    },
    onError: (error) => {
      follower.dispatch({ type: 'failed', error });
    },
    ...(given.onFinish && {
      onFinish: (finish) => {
        const record = follower.outcome;
        follower.outcome = undefined;
        // Its run goes on, or another one has taken its place.
        if (record?.open === true) return;
        given.onFinish?.(
          record === undefined ? finish : { ...finish, message: stored(record, finish.message) },
        );
      },
    }),
  };
}

/** Waits for a deletion. Something that is gone was deleted by another page, or by a request whose reply was lost. */
async function unlessGone(deletion: Promise<unknown>): Promise<void> {
  try {
    await deletion;
  } catch (error) {
    if (!(error instanceof FermataError && error.code === 'not_found')) throw error;
  }
}

async function dropPlan(follower: ChatFollower): Promise<void> {
  const { server } = follower.transport;
  await unlessGone(retry(() => server.json(server.chatUrl(follower.id, '/plan'), { method: 'DELETE' })));
  void follower.refresh();
  follower.tabs.tell();
}

async function stop(follower: ChatFollower, stopReading: () => Promise<void>): Promise<void> {
  const { server } = follower.transport;
  const tellServer = () => server.json(server.chatUrl(follower.id, '/stop'), { method: 'POST' });
  try {
    await retry(tellServer, (attempt) => {
      // The person is not made to wait for a server that is away.
      void giveUp(follower, stopReading);
      return attempt < STOP_ATTEMPTS;
    });
    follower.tools.stop();
    // The server ends the stream; what it says at the end is worth having.
    await follower.until(() => follower.state.streams.length === 0, STOP_PATIENCE);
    const isOverdue = follower.state.streams.length > 0;
    // A message may have been on its way when the first stop came in, or may never arrive.
    if (await giveUp(follower, stopReading)) await retry(tellServer);
    if (isOverdue || findCall(follower.chat.messages, isOpen)) await follower.refresh();
    follower.tabs.tell();
  } catch (error) {
    void giveUp(follower, stopReading);
    follower.dispatch({ type: 'stopUnheard' });
    throw error;
  }
}

/** Reads and sends nothing more; whether a message was on its way, which stays on the page. */
async function giveUp(follower: ChatFollower, stopReading: () => Promise<void>): Promise<boolean> {
  const wasSending = follower.transport.abortSending();
  for (const request of follower.state.streams) follower.transport.abortReading(request);
  await stopReading();
  return wasSending;
}

/** The message as the record has it; the page may have read less of it, or nothing. */
function stored<MESSAGE extends UIMessage>({ messages }: ChatRecord, message: MESSAGE): MESSAGE {
  const answers = messages.filter(({ role }) => role === 'assistant') as MESSAGE[];
  return answers.find(({ id }) => id === message.id) ?? answers.at(-1) ?? message;
}
