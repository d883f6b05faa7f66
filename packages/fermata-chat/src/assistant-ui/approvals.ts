// What assistant-ui's own UI shows of an approval or a question: the answers to choose from, the request in words, and its end. Knows
// nothing of the runtime.
//
// assistant-ui has no place for the person who decided. Its runtime for the AI SDK passes on no request with several questions
// (`display: 'questions'`), so a form with several fields is left to the page. And it cannot show a request that only other people decide
// about: without options it still has a button to deny, and a call without its `approval` would be run by the page. The server refuses such
// an answer.

import { isToolUIPart, type UIMessage } from 'ai';
import { askedCall, noOutputOf, type ElicitationAnswer, type Scope } from '../index.js';

type AnyPart = UIMessage['parts'][number];
type CallPart = Extract<AnyPart, { toolCallId: string }>;

/** An answer to choose, as assistant-ui has it. */
interface Option {
  id: string;
  kind: 'allow-once' | 'allow-always' | 'reject-once';
  label?: string;
  description?: string;
  grants?: string[];
}

const ONCE: Option = { id: 'once', kind: 'allow-once' };
const DENY: Option = { id: 'deny', kind: 'reject-once' };
const ALWAYS = 'always';

/** The option of a scope. The first one, the narrowest, is what `always` means alone. */
const idOf = (scope: Scope, place: number) => (place === 0 ? ALWAYS : `${ALWAYS}:${scope.id}`);

/** Returns the answers that an approval can have. Servers before AI SDK 7 do not say for what "always" can be. */
function optionsOf(part: CallPart): Option[] {
  const asked = askedCall(part);
  if (asked === undefined) return [ONCE, { id: ALWAYS, kind: 'allow-always' }, DENY];
  const always = (asked.scopes ?? []).map((scope, place): Option => ({
    id: idOf(scope, place),
    kind: 'allow-always',
    label: `Always for ${scope.label}`,
    description: scope.covers,
    grants: [scope.covers],
  }));
  return [ONCE, ...always, DENY];
}

/** Returns what "always" means in the option that was chosen; `undefined` if it is another one. */
export function alwaysOf(optionId: string | undefined): true | { scope: string } | undefined {
  if (optionId === ALWAYS) return true;
  return optionId?.startsWith(`${ALWAYS}:`) === true
    ? { scope: optionId.slice(ALWAYS.length + 1) }
    : undefined;
}

/** The call in the words of its tool, and why a person is asked. Words of an MCP server could say anything. */
function promptOf(part: CallPart): string | undefined {
  const said = askedCall(part)?.server === undefined ? part.toolMetadata?.['description'] : undefined;
  const { requestReason } = part.approval as { requestReason?: string };
  const lines = [said, requestReason].filter((line) => typeof line === 'string');
  return lines.length === 0 ? undefined : lines.join('\n');
}

/** A call that waits for a decision, with its options and its request in words. */
export function withOptions(part: CallPart & { state: 'approval-requested' }): AnyPart {
  const prompt = promptOf(part);
  const approval = { ...part.approval, options: optionsOf(part), ...(prompt !== undefined && { prompt }) };
  return { ...part, approval };
}

/** The message with the end of each request that nobody has decided about; the same message if there is none. */
export function withResolutions(message: UIMessage): UIMessage {
  if (message.role !== 'assistant') return message;
  const parts = message.parts.map((part): AnyPart => {
    if (!isToolUIPart(part)) return part;
    const { approval } = part as { approval?: { approved?: boolean | undefined } };
    const noOutput = noOutputOf(message, part.toolCallId);
    if (approval === undefined || approval.approved !== undefined || noOutput?.state !== 'cancelled')
      return part;
    const resolution = noOutput.code === 'expired' ? 'expired' : 'cancelled';
    return { ...part, approval: { ...approval, resolution } } as unknown as AnyPart;
  });
  return parts.every((part, place) => part === message.parts[place]) ? message : { ...message, parts };
}

// === questions ===

/** A question with one field, which assistant-ui shows as a request of its call. */
export interface AskedField {
  elicitationId: string;
  toolCallId: string;
  message: string;
  field: string;
  /** The values to choose from; a text is typed without them. */
  choices: { value: string; label: string }[] | undefined;
}

interface FieldSchema {
  type?: unknown;
  enum?: unknown;
  oneOf?: unknown;
}

interface ElicitationData {
  elicitationId: string;
  toolCallId: string;
  message: string;
  state: string;
  requestedSchema?: { properties?: Record<string, FieldSchema> };
}

/** Returns the questions of a message that wait and have one field, a text or a choice. */
export function askedFields({ parts }: UIMessage): AskedField[] {
  return parts.flatMap((part) => {
    if (part.type !== 'data-elicitation') return [];
    const { elicitationId, toolCallId, message, state, requestedSchema } = part.data as ElicitationData;
    const fields = Object.entries(requestedSchema?.properties ?? {});
    const [field, schema] = fields[0] ?? [];
    if (state !== 'pending' || fields.length !== 1 || field === undefined || schema === undefined) return [];
    const choices = choicesOf(schema);
    if (choices === undefined && schema.type !== 'string') return [];
    return [{ elicitationId, toolCallId, message, field, choices }];
  });
}

function choicesOf({ enum: values, oneOf }: FieldSchema): AskedField['choices'] {
  if (Array.isArray(values)) return values.map(String).map((value) => ({ value, label: value }));
  if (!Array.isArray(oneOf)) return undefined;
  return (oneOf as { const?: unknown; title?: unknown }[]).map(({ const: value, title }) => ({
    value: String(value),
    label: typeof title === 'string' ? title : String(value),
  }));
}

/** A call that asks something, as a request that is answered with a choice or a text. */
export function withQuestion(part: CallPart, { elicitationId, message, choices }: AskedField): AnyPart {
  const options = choices?.map(({ value, label }): Option => ({ id: value, kind: 'allow-once', label }));
  const approval = {
    id: elicitationId,
    prompt: message,
    dismissible: true,
    display: options === undefined ? 'text' : 'select',
    ...(options !== undefined && { options }),
  };
  return { ...part, state: 'approval-requested', approval } as AnyPart;
}

/** Returns the reply to a question. */
export function replyTo(
  { elicitationId, field }: AskedField,
  { approved, optionId, text }: { approved: boolean; optionId?: string; text?: string },
): ElicitationAnswer {
  const value = optionId ?? text;
  if (!approved || value === undefined) return { elicitationId, action: 'decline' };
  return { elicitationId, action: 'accept', content: { [field]: value } };
}
