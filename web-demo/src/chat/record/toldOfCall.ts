// What the server says of a call besides its state: why it has no output, what went wrong with it, and how long it took. The metadata of its
// message has it, some of it only once the message is finished; until then the call's status says the same.

import { getToolName, isToolUIPart, type UIMessage } from 'ai';
import { noOutputOf, type CallStatus, type FailureStrategy, type NoOutput } from 'fermata-chat';
import { isRecord } from './isRecord';

/** The types of failures that have words of their own. Any other is shown as a plain failure. */
export const ERROR_TYPES = [
  'rate_limit',
  'auth',
  'network',
  'timeout',
  'empty_result',
  'invalid_format',
  'denied',
] as const;

export type ErrorType = (typeof ERROR_TYPES)[number];

const STRATEGIES: readonly FailureStrategy[] = ['retry', 'go_on', 'ask_person', 'fail_run'];

export interface ToldOfCall {
  /** Why the call has no output. */
  noOutput?: NoOutput;
  /** The duration of the call, in milliseconds. */
  durationMs?: number;
  errorType?: ErrorType;
  /** The number of times that it has run, if more than one. */
  attempts?: number;
  /** The consequence of its failure. */
  strategy?: FailureStrategy;
  /** The tool of the failed call in whose place this one was made. */
  inPlaceOf?: string;
  /** The tool that was called in place of this call, once its message is finished. */
  replacedBy?: string;
}

/** Returns the known facts of a call. */
export function toldOfCall(message: UIMessage, toolCallId: string, status?: CallStatus): ToldOfCall {
  const calls = isRecord(message.metadata) ? message.metadata['calls'] : undefined;
  const call = isRecord(calls) && Object.hasOwn(calls, toolCallId) ? calls[toolCallId] : undefined;
  const told: Record<string, unknown> = { ...status, ...(isRecord(call) && call) };
  const noOutput = noOutputOf(message, toolCallId);
  const { durationMs, attempts } = told;
  const errorType = ERROR_TYPES.find((known) => known === told['errorType']);
  const strategy = STRATEGIES.find((known) => known === told['strategy']);
  const toolOf = (id: unknown) => {
    const part = message.parts.find((part) => isToolUIPart(part) && part.toolCallId === id);
    return part !== undefined && isToolUIPart(part) ? getToolName(part) : undefined;
  };
  const inPlaceOf = toolOf(told['fallbackOf']);
  const others = isRecord(calls) ? Object.entries(calls) : [];
  const fallback = others.find(([, other]) => isRecord(other) && other['fallbackOf'] === toolCallId);
  const replacedBy = fallback && toolOf(fallback[0]);
  return {
    ...(noOutput !== undefined && { noOutput }),
    ...(typeof durationMs === 'number' && { durationMs }),
    ...(typeof attempts === 'number' && { attempts }),
    ...(errorType !== undefined && { errorType }),
    ...(strategy !== undefined && { strategy }),
    ...(inPlaceOf !== undefined && { inPlaceOf }),
    ...(replacedBy !== undefined && { replacedBy }),
  };
}

/** Returns `true` if the server says the same of a call in both messages. */
export function isToldTheSame(one: UIMessage, other: UIMessage, toolCallId: string): boolean {
  const [before, after] = [toldOfCall(one, toolCallId), toldOfCall(other, toolCallId)];
  return (
    before.noOutput?.code === after.noOutput?.code &&
    before.durationMs === after.durationMs &&
    before.errorType === after.errorType &&
    before.attempts === after.attempts &&
    before.strategy === after.strategy &&
    before.inPlaceOf === after.inPlaceOf &&
    before.replacedBy === after.replacedBy
  );
}
