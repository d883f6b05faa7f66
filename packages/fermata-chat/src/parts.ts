// What all versions of the AI SDK have in common in a tool part.

import type { UIMessage } from 'ai';

export interface ToolPart {
  type: string;
  toolCallId: string;
  state: string;
  input?: unknown;
  preliminary?: boolean;
  approval?: { id: string; approved?: boolean };
}

export const isToolPart = (part: object): part is ToolPart => 'toolCallId' in part && 'state' in part;

/** Returns `true` if something is still to come of a call. */
export const isOpen = (part: ToolPart): boolean =>
  ['input-streaming', 'input-available', 'approval-requested'].includes(part.state) ||
  part.preliminary === true;

/** Returns `true` if a call has been approved, and has no outcome yet. */
const isApproved = (part: ToolPart): boolean =>
  part.state === 'approval-responded' && part.approval?.approved === true;

/** Returns `true` if a call of the message has no outcome yet. */
export const hasOpenCall = ({ role, parts }: UIMessage): boolean =>
  role === 'assistant' &&
  (parts as object[]).some((part) => isToolPart(part) && (isOpen(part) || isApproved(part)));

/** The newest call of the messages that `is` accepts. */
export const findCall = (
  messages: readonly UIMessage[],
  is: (part: ToolPart) => boolean,
): ToolPart | undefined =>
  messages
    .flatMap((message) => message.parts as object[])
    .filter(isToolPart)
    .findLast(is);

/** The calls of a message's last step. */
export function lastStepOf(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== 'assistant') return [];
  const parts: object[] = message.parts;
  const start = message.parts.findLastIndex((part) => part.type === 'step-start');
  return parts.slice(start + 1).filter(isToolPart);
}

/** An approval that waits for a decision, as far as a message shows. */
export interface ShownApproval {
  id: string;
  toolCallId: string;
}

/** The approvals that the last message of the assistant shows as waiting. */
export function shownApprovals(messages: readonly UIMessage[]): ShownApproval[] {
  const parts: object[] = messages.findLast(({ role }) => role === 'assistant')?.parts ?? [];
  const calls = parts.filter(isToolPart);
  return parts.flatMap((part) => {
    if (isToolPart(part)) {
      if (part.state !== 'approval-requested' || part.approval === undefined) return [];
      return [{ id: part.approval.id, toolCallId: part.toolCallId }];
    }
    // Version 5 has a part beside the call, which stays.
    const { type, data } = part as { type: string; data?: { approvalId: string; toolCallId: string } };
    if (type !== 'data-tool-approval' || data === undefined) return [];
    const call = calls.find(({ toolCallId }) => toolCallId === data.toolCallId);
    return call !== undefined && isOpen(call) ? [{ id: data.approvalId, toolCallId: data.toolCallId }] : [];
  });
}
