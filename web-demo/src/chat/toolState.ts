// How far a tool call is, in one word, told from its part and from the other calls of its step.
//
// Knows nothing of React or of words on the screen. Invariant: the parts alone decide, so that a reload or
// another tab shows the same as the page that was there all along.

import { getToolName, isToolUIPart, type DynamicToolUIPart, type ToolUIPart, type UIMessage } from 'ai';

export type AnyToolPart = ToolUIPart | DynamicToolUIPart;

/** A tool as `GET /api/tools` lists it. */
export interface ServerTool {
  name: string;
  description: string;
  inputSchema: object;
  runBy: 'server' | 'mcp' | 'browser';
  policy: 'allow' | 'ask' | 'deny';
  resource?: string;
}

/** Whether this page has a tool, and whether it runs by itself or asks the person. */
export type PageRuns = (name: string) => 'by-itself' | 'with-the-person' | undefined;

/** Who runs a call; `elsewhere` is a page that has a tool which this one lacks. */
export type RunBy = 'server' | 'mcp' | 'page' | 'elsewhere';

export type CallState =
  | { name: 'preparing' }
  | { name: 'waits-for-you' }
  | { name: 'waits-for-others' }
  | { name: 'waits-for-resource'; resource: string }
  | { name: 'waits-for-page' }
  | { name: 'running' }
  | { name: 'done' }
  | { name: 'failed' }
  | { name: 'denied' }
  | { name: 'cancelled' };

/**
 * How the server begins the error text of a call that has not failed: it was stopped, superseded or not
 * answered in time.
 */
const CANCELLED = /^(Cancelled|Expired): /;

export interface Surroundings {
  tools?: readonly ServerTool[] | undefined;
  pageRuns: PageRuns;
}

/** Who runs a call. */
export function runBy(part: AnyToolPart, { tools, pageRuns }: Surroundings): RunBy {
  const name = getToolName(part);
  const listed = tools?.find((tool) => tool.name === name);
  if (listed !== undefined) return listed.runBy === 'browser' ? 'page' : listed.runBy;
  if (pageRuns(name) !== undefined) return 'page';
  if (part.type === 'dynamic-tool') return 'mcp';
  return tools === undefined ? 'server' : 'elsewhere';
}

/** The calls of the step that a call belongs to, in the model's order. */
export function stepOf(message: UIMessage, toolCallId: string): AnyToolPart[] {
  let step: AnyToolPart[] = [];
  for (const part of message.parts) {
    if (part.type === 'step-start') {
      if (step.some((call) => call.toolCallId === toolCallId)) return step;
      step = [];
    } else if (isToolUIPart(part)) step.push(part);
  }
  return step;
}

/** The calls of a message's last step. */
export function lastStep(message: UIMessage): AnyToolPart[] {
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return message.parts.slice(start + 1).filter(isToolUIPart);
}

/** Whether a call waits for a person's decision. */
export const waitsForDecision = (part: AnyToolPart): boolean => part.state === 'approval-requested';

/** Whether nothing more will come of a call. */
export function isSettled(part: AnyToolPart): boolean {
  switch (part.state) {
    case 'output-available':
      return part.preliminary !== true;
    case 'output-error':
    case 'output-denied':
      return true;
    case 'input-streaming':
    case 'input-available':
    case 'approval-requested':
    case 'approval-responded':
      return false;
    default:
      return part satisfies never;
  }
}

/**
 * Whether calls of the step run before all are decided, as the server does with `gate = "progressive"`.
 *
 * Nothing on the wire says so, but under the other gate no call has an output while one waits.
 */
export const isProgressive = (step: readonly AnyToolPart[]): boolean =>
  step.some(waitsForDecision) && step.some((part) => part.state === 'output-available');

/** How far a call is. */
export function callState(part: AnyToolPart, message: UIMessage, surroundings: Surroundings): CallState {
  const step = stepOf(message, part.toolCallId);
  const isHeld = step.some((other) => other !== part && waitsForDecision(other)) && !isProgressive(step);
  switch (part.state) {
    case 'input-streaming':
      // The gate comes after the model's last word, so where somebody is asked, this input is whole and only
      // withheld.
      return { name: isHeld ? 'waits-for-others' : 'preparing' };
    case 'approval-requested':
      return { name: 'waits-for-you' };
    case 'approval-responded':
      if (!part.approval.approved) return { name: 'denied' };
      return isHeld ? { name: 'waits-for-others' } : atWork(part, step, surroundings);
    case 'input-available':
      return isHeld ? { name: 'waits-for-others' } : atWork(part, step, surroundings);
    case 'output-available':
      return { name: part.preliminary === true ? 'running' : 'done' };
    case 'output-error':
      // In a step with a browser call the server tells a denial as an error; the approval still says what it
      // was.
      if ((part.approval?.approved as boolean | undefined) === false) return { name: 'denied' };
      return { name: CANCELLED.test(part.errorText) ? 'cancelled' : 'failed' };
    case 'output-denied':
      return { name: 'denied' };
    default:
      return part satisfies never;
  }
}

function atWork(part: AnyToolPart, step: readonly AnyToolPart[], surroundings: Surroundings): CallState {
  switch (runBy(part, surroundings)) {
    case 'page':
      // An approved browser call is run on its `tool-input-available`, which comes next.
      if (part.state === 'approval-responded') return { name: 'running' };
      return {
        name: surroundings.pageRuns(getToolName(part)) === 'with-the-person' ? 'waits-for-you' : 'running',
      };
    case 'elsewhere':
      return { name: 'waits-for-page' };
    case 'server':
    case 'mcp': {
      const resource = lockedResource(part, step, surroundings.tools ?? []);
      return resource === undefined ? { name: 'running' } : { name: 'waits-for-resource', resource };
    }
  }
}

/** The resource that an earlier call of the step still has, where this call needs it, too. */
function lockedResource(
  part: AnyToolPart,
  step: readonly AnyToolPart[],
  tools: readonly ServerTool[],
): string | undefined {
  const resourceOf = (call: AnyToolPart) => tools.find((tool) => tool.name === getToolName(call))?.resource;
  const resource = resourceOf(part);
  if (resource === undefined) return undefined;
  const place = step.findIndex((call) => call.toolCallId === part.toolCallId);
  const isDenied = (call: AnyToolPart) => call.state === 'approval-responded' && !call.approval.approved;
  const holder = step
    .slice(0, place)
    .find((call) => resourceOf(call) === resource && !isSettled(call) && !isDenied(call));
  return holder && resource;
}
