// What is going on in a chat, in one word: told from the stage of its run and from the calls of its last step.
//
// Knows nothing of React or of words on the screen.

import { getToolName } from 'ai';
import type { CallStatus, RunStatus } from 'fermata-chat';
import { isParked, type Message } from '../record/message';
import { callState, isSettled, lastStep, type Surroundings } from '../record/toolState';

export type Going =
  | { what: 'nothing' }
  /** The message of the person is not sent yet. */
  | { what: 'waits-for-network' }
  | { what: 'planning' }
  | { what: 'thinking' }
  | { what: 'writing' }
  | { what: 'reading-results' }
  /** The person is asked something: a decision or a reply. */
  | { what: 'waits-for-you' }
  /** Other people decide about a call. */
  | { what: 'waits-for-people' }
  /** Another page has the tool. */
  | { what: 'waits-for-page' }
  | { what: 'waits-for-resource'; resource: string; isOfThisChat: boolean }
  /** No more calls, or requests to the model, may be under way at a time. */
  | { what: 'waits-for-capacity' }
  | { what: 'running'; tools: string[] };

export interface Facts {
  messages: readonly Message[];
  /** `true` if a run is at work as far as the AI SDK knows. */
  isBusy: boolean;
  /** `true` if the message of the person waits for the network. */
  isUnsent?: boolean;
  run: RunStatus | undefined;
  status: (toolCallId: string) => CallStatus | undefined;
  surroundings: Surroundings;
}

/** The activity of a chat. A person's tasks come first, then running calls, then the model. */
export function goingOn({ messages, isBusy, isUnsent = false, run, status, surroundings }: Facts): Going {
  if (isUnsent) return { what: 'waits-for-network' };
  const last = messages.at(-1);
  if (last !== undefined && waitsForYou(last, status, surroundings) > 0) return { what: 'waits-for-you' };
  if (!isBusy && !isParked(last)) return { what: 'nothing' };
  const open = last?.role === 'assistant' ? lastStep(last).filter((part) => !isSettled(part)) : [];
  const states = open.map((part) => ({
    part,
    state: callState(part, { status: status(part.toolCallId) }, surroundings),
  }));
  const running = states.filter(({ state }) => state.name === 'running').map(({ part }) => part);
  if (running.length > 0) return { what: 'running', tools: running.map((part) => getToolName(part)) };
  for (const { part, state } of states) {
    if (state.name === 'waits-for-resource')
      return {
        what: state.name,
        resource: state.resource,
        isOfThisChat: status(part.toolCallId)?.heldBy !== undefined,
      };
    if (
      state.name === 'waits-for-people' ||
      state.name === 'waits-for-page' ||
      state.name === 'waits-for-capacity'
    )
      return { what: state.name };
  }
  if (run?.waitsFor === 'capacity') return { what: 'waits-for-capacity' };
  switch (run?.stage) {
    case 'plan':
      return { what: 'planning' };
    case 'respond':
      return { what: 'writing' };
    case 'tool_result':
      return { what: 'reading-results' };
    case 'tool_call':
    case 'decide':
    case 'idle':
    case undefined:
      return { what: 'thinking' };
  }
}

/** The number of calls and questions of a message that wait for the person. */
export function waitsForYou(message: Message, status: Facts['status'], surroundings: Surroundings): number {
  if (message.role !== 'assistant') return 0;
  const calls = lastStep(message).filter(
    (part) => callState(part, { status: status(part.toolCallId) }, surroundings).name === 'waits-for-you',
  );
  const questions = message.parts.filter(
    (part) =>
      part.type === 'data-elicitation' && (part.data as { state?: unknown } | null)?.state === 'pending',
  );
  return calls.length + questions.length;
}

/** The word of approval in this language; `undefined` if no word does. */
export function confirmWord(run: RunStatus | undefined, language: string): string | undefined {
  const words = run?.confirmWords ?? [];
  const isChinese = (word: string) => /\p{Script=Han}/u.test(word);
  return words.find((word) => isChinese(word) === language.startsWith('zh')) ?? words[0];
}
