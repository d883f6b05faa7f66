// What the server says of the context of a chat: how full the model's window is (`data-context`, and `context` of the
// record), and that a summary is written because a request is too long (`data-compaction`).

/** The number of tokens that the model has read in the newest step, and the number that it can take. */
export interface ContextUsage {
  inputTokens: number;
  /** The size of the model's window in tokens; absent if the server does not know it. */
  window?: number;
  /** The number of tokens above which the chat is compacted. */
  compactAt?: number;
}

/** The data of a part `data-compaction`, which stays in the message of the run that was compacted. */
export interface Compaction {
  /** `failed`: the messages are left out without a summary. */
  state: 'running' | 'done' | 'failed';
  /** The number of messages that the summary stands for, from the first of the chat. */
  messages: number;
  reason: SummaryReason;
  tokensBefore?: number;
  tokensAfter?: number;
}

/**
 * The reason why a summary is written: many messages had none, the chat came near the size of the model's
 * window, the provider refused a request for its length, or somebody asked for it.
 */
export type SummaryReason = 'every' | 'size' | 'overflow' | 'asked';
