// How far a tool call is, in one word, told from its part and from what the server says of it: what it waits for, and why it has no output.
//
// Knows nothing of React or of words on the screen. A reload or another tab shows the same as the page that was
// there all along, because the server tells each of them.

import { getToolName, isToolUIPart, type DynamicToolUIPart, type ToolUIPart, type UIMessage } from 'ai';
import { askedCall, type CallStatus, type FermataChat, type NoOutput } from 'fermata-chat';

export type AnyToolPart = ToolUIPart | DynamicToolUIPart;

/** What the card of a call needs of its chat. */
export type CardChat = Pick<
  FermataChat,
  | 'callStatus'
  | 'onCallStatus'
  | 'addToolApprovalResponse'
  | 'addToolOutput'
  | 'noteEditing'
  | 'previewInput'
  | 'cancelCall'
  | 'retryCall'
  | 'dropPlan'
>;

/** A tool as `GET /api/tools` lists it. */
export interface ServerTool {
  name: string;
  description: string;
  inputSchema: object;
  runBy: 'server' | 'mcp' | 'browser';
  policy: 'allow' | 'ask' | 'deny';
  resource?: string;
}

/** The names of the server's own tools whose calls are shown as what they do. */
export interface OwnTools {
  makePlan: string;
  updatePlan: string;
  remember: string;
  forget: string;
}

/** The response of `GET /api/tools`. */
export interface ServerTools {
  listed: readonly ServerTool[];
  own?: OwnTools;
}

/** Returns the way that a tool of this page runs, by itself or with the person; `undefined` if the page lacks it. */
export type PageRuns = (name: string) => 'by-itself' | 'with-the-person' | undefined;

/** The runner of a call; for `elsewhere` the call waits for another page, with a tool that this one lacks. */
export type RunBy = 'server' | 'mcp' | 'page' | 'elsewhere';

export type CallState =
  | { name: 'preparing' }
  | { name: 'waits-for-you' }
  | { name: 'waits-for-people' }
  | { name: 'waits-for-others' }
  | { name: 'waits-for-resource'; resource: string }
  | { name: 'waits-for-capacity' }
  | { name: 'waits-for-page' }
  /** People have approved the call, and nothing is known of what came of it. */
  | { name: 'approved' }
  | { name: 'running' }
  | { name: 'done' }
  | { name: 'failed' }
  | { name: 'denied' }
  | { name: 'cancelled' };

export interface Surroundings {
  tools?: ServerTools | undefined;
  pageRuns: PageRuns;
}

/** The server's facts about a call. */
export interface Told {
  status?: CallStatus | undefined;
  noOutput?: NoOutput | undefined;
}

/** Returns the runner of a call. */
export function runBy(
  part: AnyToolPart,
  status: CallStatus | undefined,
  { tools, pageRuns }: Surroundings,
): RunBy {
  const name = getToolName(part);
  const listed = tools?.listed.find((tool) => tool.name === name);
  if (listed !== undefined) return listed.runBy === 'browser' ? 'page' : listed.runBy;
  if (pageRuns(name) !== undefined) return 'page';
  if (part.type === 'dynamic-tool') return 'mcp';
  return status?.waitsFor === 'page' ? 'elsewhere' : 'server';
}

/** The calls of a message's last step. */
export function lastStep(message: UIMessage): AnyToolPart[] {
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return message.parts.slice(start + 1).filter(isToolUIPart);
}

/** Returns `true` if a call waits for a person's decision. */
export const waitsForDecision = (part: AnyToolPart): boolean => part.state === 'approval-requested';

/** Returns `true` if a call waits for a decision that the person may make. */
export function asksPerson(
  part: AnyToolPart,
  status: CallStatus | undefined,
): part is Extract<AnyToolPart, { state: 'approval-requested' }> {
  if (!waitsForDecision(part)) return false;
  // The request itself does not change when somebody else may decide.
  if (status?.waitsFor === 'other_people') return false;
  return (status?.decision ?? askedCall(part))?.mayDecide !== false;
}

/** Returns `true` if a call has fewer approvals than it needs. */
const needsMoreVotes = (status: CallStatus | undefined): boolean =>
  status?.state === 'awaiting_approval' && (status.decision?.quorum ?? 1) > 1;

/** Returns `true` if nothing more will come of a call. */
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
 * The state of a call. Its outcome is in its part, with the reason if it has no output. Until then the server reports its wait, and the
 * part alone counts until it does.
 */
export function callState(
  part: AnyToolPart,
  { status, noOutput }: Told,
  surroundings: Surroundings,
): CallState {
  switch (part.state) {
    case 'output-available':
      return { name: part.preliminary === true ? 'running' : 'done' };
    case 'output-error':
      // Clients are sent some denials as errors: those of version 5 all of them.
      if (noOutput?.state !== 'cancelled') return { name: 'failed' };
      return { name: noOutput.code === 'denied' ? 'denied' : 'cancelled' };
    case 'output-denied':
      return { name: 'denied' };
    case 'approval-requested':
      return { name: asksPerson(part, status) ? 'waits-for-you' : 'waits-for-people' };
    case 'approval-responded':
      if (!part.approval.approved) return { name: 'denied' };
      if (needsMoreVotes(status)) return { name: 'waits-for-people' };
      break;
    case 'input-streaming':
    case 'input-available':
      break;
    default:
      return part satisfies never;
  }
  switch (status?.waitsFor) {
    case 'other_people':
      return { name: 'waits-for-people' };
    case 'gate':
      return { name: 'waits-for-others' };
    case 'resource':
      return { name: 'waits-for-resource', resource: status.resource ?? '' };
    case 'capacity':
      return { name: 'waits-for-capacity' };
    case 'person':
    case 'page':
    case undefined:
      return part.state === 'input-streaming' ? { name: 'preparing' } : atWork(part, status, surroundings);
  }
}

function atWork(part: AnyToolPart, status: CallStatus | undefined, surroundings: Surroundings): CallState {
  switch (runBy(part, status, surroundings)) {
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
