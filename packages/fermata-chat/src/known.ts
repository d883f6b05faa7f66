// The facts about a chat besides its messages, as the server sends them. Records, streams and the replies to answers bring them.

import type { UIMessage } from 'ai';
import type { Chosen } from './assistants.js';
import { CallStatuses } from './calls.js';
import type { ContextUsage } from './context.js';
import { FollowedValue } from './followed.js';
import { statusOf, type ChatRecord } from './record.js';
import { runStatusIn, type RunStatus } from './runs.js';
import type { FermataError, Server } from './server.js';
import { FollowedSummary, readSummary } from './summaries.js';

/** What a person has said, and the server has not taken yet. */
export interface Unsent {
  message: UIMessage;
  /** `true` if the server cannot be reached. The message is sent as soon as it can. */
  isWaiting: boolean;
}

/** A message that was not taken, and why. */
export interface GivenBack {
  message: UIMessage;
  error: FermataError;
}

export class KnownOfChat {
  readonly calls = new CallStatuses();
  readonly usage = new FollowedValue<ContextUsage | undefined>(undefined);
  readonly run = new FollowedValue<RunStatus | undefined>(undefined);
  readonly chosen = new FollowedValue<Chosen>({});
  readonly unsent = new FollowedValue<Unsent | undefined>(undefined);
  readonly givenBack = new FollowedValue<GivenBack | undefined>(undefined);
  readonly summary: FollowedSummary;

  constructor(server: Server, chatId: string) {
    this.summary = new FollowedSummary(() => readSummary(server, chatId));
  }

  /** Takes over what a record says besides its messages. */
  learn(record: ChatRecord) {
    const { assistant, model, messages, pending, context } = record;
    this.chosen.set({
      ...(assistant !== undefined && { assistant }),
      ...(model !== undefined && { model }),
    });
    this.usage.set(context);
    this.run.set(runStatusIn(record));
    for (const waiting of pending) this.calls.set(waiting.toolCallId, statusOf(waiting));
    this.summary.refresh(messages.length);
  }
}
