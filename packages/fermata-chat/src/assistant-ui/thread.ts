// One chat as a thread of assistant-ui.

import { Chat } from '@ai-sdk/react';
import { getToolName, isToolUIPart, type UIMessage } from 'ai';
import { fermata, type FermataChat } from '../index.js';
import {
  alwaysOf,
  askedFields,
  replyTo,
  withOptions,
  withQuestion,
  withResolutions,
  type AskedField,
} from './approvals.js';
import type { ChatHelpers, FermataRuntimeOptions, RuntimeOptions } from './options.js';
import { NO_OUTPUT, PageTools, type Question } from './page-tools.js';

type Part = UIMessage['parts'][number];
type ToolPart = Extract<Part, { toolCallId: string }>;
type Respond = NonNullable<RuntimeOptions['onRespondToToolApproval']>;

/** A chat of Fermata as assistant-ui's threads have it. */
export type AssistantChat = Chat<UIMessage> & FermataChat;

/** The messages of a long chat that assistant-ui does not have yet. */
export interface Earlier {
  count: number;
  show: () => void;
}

/** The chat that assistant-ui is shown. */
export type Presented = ChatHelpers & { fermata: AssistantChat; earlier: Earlier };

/**
 * One chat, and what assistant-ui is shown of it.
 *
 * It is shown the newest messages, with three differences: while the open stream waits for this page only, the
 * status is `ready`; a call whose tool waits for `human()` has an id of its own (see `PageTools`); and requests
 * have what assistant-ui's own UI shows of them (see `approvals.ts`).
 */
export class Thread {
  readonly chat: AssistantChat;
  readonly page = new PageTools();
  /** The number of messages that the next post keeps, if assistant-ui has cut some off. */
  #kept: number | undefined;
  /** Messages that grow no more, as they are shown: assistant-ui converts each object once. */
  readonly #shown = new WeakMap<UIMessage, UIMessage>();

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
      lastStep(helpers.messages.at(-1)).some((part) => this.#waits(part, questions, this.#asked));
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
    const earlier = messages.slice(0, -1).map((message) => this.#settled(message));
    if (last?.role !== 'assistant') return last === undefined ? earlier : [...earlier, last];
    const asked = askedFields(last);
    const parts = last.parts.map((part) =>
      isToolUIPart(part) ? this.#part(part, questions, asked) : { ...part },
    );
    return [...earlier, withResolutions({ ...last, parts })];
  }

  #settled(message: UIMessage): UIMessage {
    const shown = this.#shown.get(message) ?? withResolutions(message);
    this.#shown.set(message, shown);
    return shown;
  }

  #part(part: ToolPart, questions: readonly Question[], asked: readonly AskedField[]): Part {
    if (part.state === 'approval-requested') return withOptions(part);
    if (part.state !== 'input-available') return { ...part };
    const field = asked.find(({ toolCallId }) => toolCallId === part.toolCallId);
    if (field !== undefined) return withQuestion(part, field);
    const question = questions.find(({ toolCallId }) => toolCallId === part.toolCallId);
    if (question === undefined) return { ...part };
    // Where there is an approval, be it an old one, assistant-ui shows no question.
    const shown = { ...part, toolCallId: question.shownAs };
    delete shown.approval;
    return shown;
  }

  /** The questions of the last message that assistant-ui shows. */
  get #asked(): AskedField[] {
    const last = this.chat.messages.at(-1);
    return last === undefined ? [] : askedFields(last);
  }

  #waits(part: ToolPart, questions: readonly Question[], asked: readonly AskedField[]): boolean {
    if (part.state === 'approval-requested') return true;
    if (part.state !== 'input-available') return false;
    return (
      this.page.hasUiOnly(getToolName(part)) ||
      [...questions, ...asked].some(({ toolCallId }) => toolCallId === part.toolCallId)
    );
  }

  // === what assistant-ui does ===

  respond: Respond = async ({ approvalId, approved, optionId, text, reason }) => {
    const field = this.#asked.find(({ elicitationId }) => elicitationId === approvalId);
    if (field !== undefined) {
      const given = {
        approved,
        ...(optionId !== undefined && { optionId }),
        ...(text !== undefined && { text }),
      };
      await this.chat.answerElicitation(replyTo(field, given));
      return;
    }
    const always = approved ? alwaysOf(optionId) : undefined;
    await this.chat.addToolApprovalResponse({
      id: approvalId,
      approved,
      ...(always !== undefined && { always }),
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
      // The post is made at once. No other cut has an effect on the record.
      queueMicrotask(() => (this.#kept = undefined));
    } else if (typeof change === 'function') {
      this.chat.messages = changed;
    }
  }

  /** Cuts off the messages that are to be posted again. Returns the first of them. */
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

/** The server's id of a call that assistant-ui shows. */
export function toolCallIdOf(shown: string): string {
  return shown.replace(/~\w+$/, '');
}
