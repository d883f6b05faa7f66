// The contents of a message, in the order and the groups to show. This module decides nothing about
// looks.

import type { UIMessage } from 'ai';
import { planOf, type Compaction, type NoOutput, type RefusedPart } from 'fermata-chat';
import { isRecord } from './isRecord';
import type { OwnTools } from './toolState';

/** Fermata's metadata of a message: that of calls as soon as one has no output, and all of it once the message is finished. */
export interface Metadata {
  model?: string;
  durationMs?: number;
  /** By their ids, what is known of the calls. */
  calls?: Record<
    string,
    Partial<NoOutput> & { durationMs?: number; errorType?: string; attempts?: number; strategy?: string }
  >;
  /** The ending of the run; absent if it goes on, or has failed. */
  ending?: 'finished' | 'stopped' | 'expired' | 'step_limit';
  /** The parts of the chat that the model answered without. */
  refused?: RefusedPart[];
  usage?: { inputTokens?: number; outputTokens?: number; totalTokens?: number };
}

export type Message = UIMessage<Metadata>;
export type Part = Message['parts'][number];
export type ToolPart = Extract<Part, { toolCallId: string }>;
export type DataPart = Extract<Part, { type: `data-${string}` }>;
export type FilePart = Extract<Part, { type: 'file' }>;
export type TextPart = Extract<Part, { type: 'text' }>;
export type ReasoningPart = Extract<Part, { type: 'reasoning' }>;
export type SourcePart = Extract<Part, { type: 'source-url' | 'source-document' }>;

/** Parts that are shown as one. `key` stays the same while a message grows. */
export type Group =
  | { kind: 'text'; key: string; part: TextPart }
  | { kind: 'reasoning'; key: string; part: ReasoningPart }
  | { kind: 'files'; key: string; parts: FilePart[] }
  | { kind: 'sources'; key: string; parts: SourcePart[] }
  /** The messages that were left out before a step, so that the chat fits the model. */
  | { kind: 'compaction'; key: string; part: DataPart }
  /** The plan of the run. */
  | { kind: 'plan'; key: string; part: DataPart }
  /** The calls of one step, which pass the gate together, with what they ask. */
  | { kind: 'step'; key: string; parts: (ToolPart | DataPart)[] };

/** Data parts that are shown; any other is for programs. */
const SHOWN_DATA = ['data-elicitation', 'data-tool-approval'];

export const isToolPart = (part: Part): part is ToolPart => 'toolCallId' in part;
export const toolNameOf = (part: ToolPart) =>
  part.type === 'dynamic-tool' ? part.toolName : part.type.slice('tool-'.length);

/** The call whose card shows the plan of a message: the last one that made a plan. */
export const planCallOf = (
  { parts }: Pick<Message, 'parts'>,
  own: OwnTools | undefined,
): string | undefined =>
  parts.findLast(
    (part): part is ToolPart =>
      isToolPart(part) && toolNameOf(part) === own?.makePlan && part.state !== 'output-error',
  )?.toolCallId;

/**
 * Returns `true` if a later message goes on with the plan of a message, or has replaced what was open of it. A plan belongs to the chat, and
 * its newest card is the live one.
 */
export function isPlanContinued(
  message: Pick<Message, 'id' | 'parts'>,
  messages: readonly Message[],
): boolean {
  const plan = planOf(message);
  if (plan === undefined) return false;
  const place = messages.findIndex(({ id }) => id === message.id);
  const later = messages.slice(place + 1).flatMap((other) => planOf(other) ?? []);
  const isOpen = plan.state === 'accepted' || plan.state === 'proposed';
  return later.some(
    ({ goal, steps }) => isOpen || (goal === plan.goal && steps[0]?.id === plan.steps[0]?.id),
  );
}

/** Returns `true` if a call only ticks off a step of the plan, which its own card shows. */
export const isToldAsPlan = (part: ToolPart, message: Message, own: OwnTools | undefined): boolean =>
  toolNameOf(part) === own?.updatePlan &&
  part.state !== 'output-error' &&
  planCallOf(message, own) !== undefined;

/** Returns `true` if a question is one of the model itself, which it asks with this call. */
const isOfModel = (question: unknown, { toolCallId }: ToolPart): question is Record<string, unknown> =>
  isRecord(question) && question['asks'] === 'assistant' && question['toolCallId'] === toolCallId;

/** Returns `true` if a call is shown as the question that it asks, which waits for the person. */
export const isShownAsQuestion = (call: ToolPart, message: Message): boolean =>
  message.parts.some(
    (part) =>
      part.type === 'data-elicitation' && isOfModel(part.data, call) && part.data['state'] === 'pending',
  );

/** Returns `true` if a question of the model is shown as its call, which has the answers. */
export const isShownAsCall = (question: unknown, message: Message): boolean =>
  message.parts.some(
    (part) => isToolPart(part) && isOfModel(question, part) && question['state'] !== 'pending',
  );

const kindOf = (part: Part): Group['kind'] | undefined => {
  if (isToolPart(part) || SHOWN_DATA.includes(part.type)) return 'step';
  switch (part.type) {
    case 'data-compaction':
      return 'compaction';
    case 'data-plan':
      return 'plan';
    case 'text':
      return part.text === '' ? undefined : 'text';
    case 'reasoning':
      return part.text === '' && part.state !== 'streaming' ? undefined : 'reasoning';
    case 'file':
      return 'files';
    case 'source-url':
    case 'source-document':
      return 'sources';
    case 'step-start':
    case 'custom':
    case 'reasoning-file':
    case 'steering-message':
      return undefined;
    default:
      return undefined;
  }
};

/**
 * The groups of a message. Parts of one kind that follow each other within a step are one group.
 *
 * The parts are copies: the AI SDK writes on in those of a message that it has just begun, and what was
 * rendered must not seem to be what was written since.
 */
export function groupParts(parts: readonly Part[]): Group[] {
  const groups: Group[] = [];
  let isNewStep = true;
  parts.forEach((growing, place) => {
    const part = { ...growing };
    if (part.type === 'step-start') {
      isNewStep = true;
      return;
    }
    const kind = kindOf(part);
    if (kind === undefined) return;
    const last = isNewStep ? undefined : groups.at(-1);
    isNewStep = false;
    const key = `${kind}-${place}`;
    if (kind === 'text') groups.push({ kind, key, part: part as TextPart });
    else if (kind === 'reasoning') groups.push({ kind, key, part: part as ReasoningPart });
    else if (kind === 'compaction' || kind === 'plan') groups.push({ kind, key, part: part as DataPart });
    else if (last?.kind === kind) (last.parts as Part[]).push(part);
    else groups.push({ kind, key, parts: [part] } as unknown as Group);
  });
  return groups;
}

/** A message's own words, as one would copy them. */
export const textOf = (message: Message) =>
  message.parts
    .filter((part) => part.type === 'text')
    .map((part) => part.text)
    .join('\n\n');

const OPEN = ['input-streaming', 'input-available', 'approval-requested', 'approval-responded'];

const isOpenQuestion = (part: Part) =>
  part.type === 'data-elicitation' && (part.data as { state?: unknown } | null)?.state === 'pending';

/** Returns `true` if something of the message's last step is still to be settled, by anybody. */
export function isParked(message: Message | undefined): boolean {
  if (message?.role !== 'assistant') return false;
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return message.parts
    .slice(start + 1)
    .some((part) => (isToolPart(part) ? OPEN.includes(part.state) : isOpenQuestion(part)));
}

/** Returns `true` if an answer was begun, and came to nothing. */
export const saysNothing = (message: Message): boolean =>
  message.parts.every((part) => kindOf(part) === undefined || part.type === 'data-compaction');

/** Returns `true` if a reply is being waited for that nothing on the page shows yet. */
export function isQuiet(messages: readonly Message[], status: string): boolean {
  if (status === 'submitted') return true;
  if (status !== 'streaming') return false;
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return true;
  const part = last.parts.findLast((part) => part.type === 'step-start' || kindOf(part) !== undefined);
  if (part === undefined || part.type === 'step-start') return true;
  if (isToolPart(part)) return !isParked(last);
  if (part.type === 'data-compaction') return (part.data as Compaction).state !== 'running';
  return 'state' in part && part.state === 'done';
}

/**
 * The message as it is now. The AI SDK goes on writing in the object of a message's beginning, and React must
 * not find something else in what it has drawn than it has drawn.
 */
export const copyOf = (message: Message): Message => ({
  ...message,
  parts: message.parts.map((part) => ({ ...part })),
});

/**
 * Returns `true` if two parts show the same. The AI SDK copies the parts of the message that grows; what is in them
 * stays as it was.
 */
export function isSamePart(one: Part, other: Part): boolean {
  if (one === other) return true;
  const left = one as Record<string, unknown>;
  const right = other as Record<string, unknown>;
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length && names.every((name) => Object.is(left[name], right[name]))
  );
}
