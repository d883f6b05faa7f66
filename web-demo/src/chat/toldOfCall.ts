// What the server says of a call once its message is finished: how long it took, and what went wrong with it.

import type { UIMessage } from 'ai';
import type { CallStatus, FailureStrategy } from 'fermata-chat';
import { isRecord } from '../tools/tool';

/** The types of failures that have words of their own. Any other is told as a failure, and no more. */
const ERROR_TYPES = ['rate_limit', 'auth', 'network', 'timeout', 'empty_result', 'invalid_format'] as const;

export type ErrorType = (typeof ERROR_TYPES)[number];

const STRATEGIES: readonly FailureStrategy[] = ['retry', 'go_on', 'ask_person', 'fail_run'];

export interface ToldOfCall {
  /** How long the call took, in milliseconds. */
  durationMs?: number;
  errorType?: ErrorType;
  /** How often it has run, if that was more than once. */
  attempts?: number;
  /** What followed its failure. */
  strategy?: FailureStrategy;
}

/** What is known of a call: from its message once that is finished, and from its status until then. */
export function toldOfCall(message: UIMessage, toolCallId: string, status?: CallStatus): ToldOfCall {
  const calls = isRecord(message.metadata) ? message.metadata['calls'] : undefined;
  const call = isRecord(calls) && Object.hasOwn(calls, toolCallId) ? calls[toolCallId] : undefined;
  const told: Record<string, unknown> = isRecord(call) ? call : { ...status };
  const { durationMs, attempts } = told;
  const errorType = ERROR_TYPES.find((known) => known === told['errorType']);
  const strategy = STRATEGIES.find((known) => known === told['strategy']);
  return {
    ...(typeof durationMs === 'number' && { durationMs }),
    ...(typeof attempts === 'number' && { attempts }),
    ...(errorType !== undefined && { errorType }),
    ...(strategy !== undefined && { strategy }),
  };
}

/** Whether the server says the same of a call in both messages. */
export function isToldTheSame(one: UIMessage, other: UIMessage, toolCallId: string): boolean {
  const [before, after] = [toldOfCall(one, toolCallId), toldOfCall(other, toolCallId)];
  return (
    before.durationMs === after.durationMs &&
    before.errorType === after.errorType &&
    before.attempts === after.attempts &&
    before.strategy === after.strategy
  );
}
