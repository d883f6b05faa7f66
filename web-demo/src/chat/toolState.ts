// How far a tool call is, in one word, told from its part and from what the server says that it waits for.
//
// Knows nothing of React or of words on the screen. A reload or another tab shows the same as the page that was
// there all along, because the server tells each of them.

import { getToolName, isToolUIPart, type DynamicToolUIPart, type ToolUIPart, type UIMessage } from 'ai';
import type { CallStatus } from 'fermata-chat';

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
  | { name: 'waits-for-capacity' }
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

/** The tools with which the server keeps plans. They are listed only where plans are always used. */
export const PLAN_TOOLS = ['make_plan', 'update_plan'] as const;

/** Who runs a call. */
export function runBy(part: AnyToolPart, { tools, pageRuns }: Surroundings): RunBy {
  const name = getToolName(part);
  const listed = tools?.find((tool) => tool.name === name);
  if (listed !== undefined) return listed.runBy === 'browser' ? 'page' : listed.runBy;
  if (pageRuns(name) !== undefined) return 'page';
  if (PLAN_TOOLS.some((tool) => tool === name)) return 'server';
  if (part.type === 'dynamic-tool') return 'mcp';
  return tools === undefined ? 'server' : 'elsewhere';
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

/**
 * How far a call is. Its outcome is in its part; until then the server says what it waits for (`status`), and
 * the part alone counts as long as no stream has said that.
 */
export function callState(
  part: AnyToolPart,
  status: CallStatus | undefined,
  surroundings: Surroundings,
): CallState {
  switch (part.state) {
    case 'output-available':
      return { name: part.preliminary === true ? 'running' : 'done' };
    case 'output-error':
      // In a step with a browser call the server tells a denial as an error; the approval still says what it
      // was.
      if ((part.approval?.approved as boolean | undefined) === false) return { name: 'denied' };
      return { name: CANCELLED.test(part.errorText) ? 'cancelled' : 'failed' };
    case 'output-denied':
      return { name: 'denied' };
    case 'approval-requested':
      return { name: 'waits-for-you' };
    case 'approval-responded':
      if (!part.approval.approved) return { name: 'denied' };
      break;
    case 'input-streaming':
    case 'input-available':
      break;
    default:
      return part satisfies never;
  }
  switch (status?.waitsFor) {
    case 'gate':
      return { name: 'waits-for-others' };
    case 'resource':
      return { name: 'waits-for-resource', resource: status.resource ?? '' };
    case 'capacity':
      return { name: 'waits-for-capacity' };
    case 'person':
    case 'page':
    case undefined:
      return part.state === 'input-streaming' ? { name: 'preparing' } : atWork(part, surroundings);
  }
}

function atWork(part: AnyToolPart, surroundings: Surroundings): CallState {
  switch (runBy(part, surroundings)) {
    case 'page': {
      // An approved browser call is run on its `tool-input-available`, which comes next.
      const asks = surroundings.pageRuns(getToolName(part)) === 'with-the-person';
      return { name: asks && part.state !== 'approval-responded' ? 'waits-for-you' : 'running' };
    }
    case 'elsewhere':
      return { name: 'waits-for-page' };
    case 'server':
    case 'mcp':
      return { name: 'running' };
  }
}
