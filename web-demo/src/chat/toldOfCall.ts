// What the server says of a call once its message is finished: how long it took, and what went wrong with it.

import type { UIMessage } from 'ai';
import { isRecord } from '../tools/tool';

/** The types of failures that have words of their own. Any other is told as a failure, and no more. */
const ERROR_TYPES = ['rate_limit', 'auth', 'network', 'timeout', 'empty_result', 'invalid_format'] as const;

export type ErrorType = (typeof ERROR_TYPES)[number];

export interface ToldOfCall {
  /** How long the call took, in milliseconds. */
  durationMs?: number;
  errorType?: ErrorType;
  /** How often it has run, if that was more than once. */
  attempts?: number;
}

export function toldOfCall(message: UIMessage, toolCallId: string): ToldOfCall {
  const calls = isRecord(message.metadata) ? message.metadata['calls'] : undefined;
  const call = isRecord(calls) && Object.hasOwn(calls, toolCallId) ? calls[toolCallId] : undefined;
  if (!isRecord(call)) return {};
  const { durationMs, attempts } = call;
  const errorType = ERROR_TYPES.find((known) => known === call['errorType']);
  return {
    ...(typeof durationMs === 'number' && { durationMs }),
    ...(typeof attempts === 'number' && { attempts }),
    ...(errorType !== undefined && { errorType }),
  };
}

/** Whether the server says the same of a call in both messages. */
export function isToldTheSame(one: UIMessage, other: UIMessage, toolCallId: string): boolean {
  const [before, after] = [toldOfCall(one, toolCallId), toldOfCall(other, toolCallId)];
  return (
    before.durationMs === after.durationMs &&
    before.errorType === after.errorType &&
    before.attempts === after.attempts
  );
}
