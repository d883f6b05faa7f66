// The options of the runtime for assistant-ui.

import type { useChat } from '@ai-sdk/react';
import type { useAISDKRuntime } from '@assistant-ui/react-ai-sdk';
import type { UIMessage } from 'ai';
import type { FermataOptions } from '../index.js';

/** The object that the AI SDK's `useChat` returns. */
export type ChatHelpers = ReturnType<typeof useChat<UIMessage>>;
export type RuntimeOptions = NonNullable<Parameters<typeof useAISDKRuntime<UIMessage>>[1]>;

export interface FermataRuntimeOptions extends Omit<FermataOptions, 'client' | 'tools'> {
  /** Names of tools that may run again, should the page go away while they run. */
  repeatable?: readonly string[];
  /** The chat that is shown; `undefined` is a new one. */
  threadId?: string | undefined;
  /**
   * Returns `true` for an id that the page has just made up and nobody has posted to yet. The server is then
   * not asked for it.
   */
  isNew?: (chatId: string) => boolean;
  /** Called with the chat that is shown: `undefined` for a new one, until its first message. */
  onThreadIdChange?: ((threadId: string | undefined) => void) | undefined;
  /** The least time between two renderings while a message streams, in milliseconds; 30 by default. */
  throttle?: number;
  /**
   * The number of messages of a chat that assistant-ui has at first, the newest; all of them by default. It has
   * some work with each whenever one grows, which a person feels from a few hundred on.
   */
  newest?: number;
  /** assistant-ui's own options: attachments, suggestions, … */
  runtime?: Omit<
    RuntimeOptions,
    'cancelPendingToolCallsOnSend' | 'onRespondToToolApproval' | 'messageRepository'
  >;
}
