// An approval as the call of a message, so that the card of the chats shows it. Knows nothing of React.

import type { Approval, CallStatus, Vote } from 'fermata-chat';
import type { Message } from '../chat/record/message';
import type { AnyToolPart, CallState, CardChat } from '../chat/record/toolState';

/** Returns the call of an approval. It has the approval's id, because only its chat knows its own. */
export function partOf(approval: Approval, isOver: boolean): AnyToolPart {
  const { id, tool, server, title, description, details, input, inputText, reason } = approval;
  const answer = {
    approved: approval.state === 'approved',
    ...(approval.settled?.reason !== undefined && { reason: approval.settled.reason }),
  };
  const part = {
    ...(server === null ? { type: `tool-${tool}` } : { type: 'dynamic-tool', toolName: tool }),
    toolCallId: id,
    state: isOver ? 'approval-responded' : 'approval-requested',
    input,
    ...(title !== null && { title }),
    toolMetadata: { description, details, ...(server !== null && { server }) },
    approval: {
      id,
      descriptor: { tool, inputText },
      ...(reason !== null && { requestReason: reason }),
      ...(isOver && answer),
    },
  };
  // The AI SDK types a part by its tool, which only the server knows.
  return part as unknown as AnyToolPart;
}

export const messageOf = (part: AnyToolPart): Message => ({
  id: part.toolCallId,
  role: 'assistant',
  parts: [part],
});

/** The state of an approval that is over; `undefined` if it waits, because then its call has one. */
export function endOf({ state }: Approval, isGone: boolean): CallState | undefined {
  switch (state) {
    case 'waiting':
      return isGone ? { name: 'cancelled' } : undefined;
    case 'approved':
    case 'denied':
      return { name: state };
    case 'expired':
    case 'cancelled':
      return { name: 'cancelled' };
    default:
      return state satisfies never;
  }
}

/** Returns a chat for the card of the call. An answer to it is a vote. */
export function chatOf(
  approval: Approval,
  waitsForMe: boolean,
  vote: (vote: Vote) => Promise<void>,
): CardChat {
  const status: CallStatus = {
    state: 'awaiting_approval',
    waitsFor: waitsForMe ? 'person' : 'other_people',
    decision: approval.decision,
  };
  // The card of an approval calls only `noteEditing`, and no other page shows that an approval is edited.
  const unused = () => Promise.resolve();
  return {
    callStatus: () => status,
    onCallStatus: () => () => undefined,
    addToolApprovalResponse: ({ approved, reason, input, inputText }) => {
      const edited = inputText ?? (input === undefined ? undefined : JSON.stringify(input));
      return vote({
        approved,
        ...(reason !== undefined && { reason }),
        ...(edited !== undefined && { inputText: edited }),
      });
    },
    previewInput: () => Promise.resolve({ decision: 'ask' }),
    addToolOutput: unused,
    noteEditing: unused,
    cancelCall: unused,
    retryCall: unused,
    dropPlan: unused,
  };
}
