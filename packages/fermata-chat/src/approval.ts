// An approval as the server has it outside of its chat: a call that waits for a decision, or the outcome. Knows no requests.

import { decisionOf, type ApprovalDecision } from './calls.js';
import type { CallDetails } from './record.js';

export type ApprovalState = 'waiting' | 'approved' | 'denied' | 'expired' | 'cancelled';

/** A call that people decide about. It says nothing else of its chat to those who do not own it. */
export interface Approval {
  /** The `approvalId` of the stream. */
  id: string;
  state: ApprovalState;
  tool: string;
  /** The title of the tool. That of an MCP tool is the server's own text, and may say anything. */
  title: string | null;
  /** The name of the MCP server that offers the tool. */
  server: string | null;
  /** The call in the words of its tool. */
  description: string | null;
  /** The effect of the call. */
  details: CallDetails | null;
  input: unknown;
  /** The input as the JSON text that runs. */
  inputText: string;
  /** The hash of `inputText`. A vote counts only for the input with this hash. */
  inputHash: string;
  /** Why people are asked, in the words of the rule that asks. */
  reason: string | null;
  requestedBy: string;
  requestedAt: string;
  expiresAt: string | null;
  decision: ApprovalDecision;
  /** The chat of the call, for its owner only. */
  chat?: { id: string; title: string | null };
  settled: Settlement | null;
}

/** The outcome of an approval. */
export interface Settlement {
  /** The user who decided; `null` if it expired or was cancelled. */
  by: string | null;
  at: string;
  /** The way the decision came, such as `button`, `api` or `slack`. */
  channel: string | null;
  reason?: string;
}

/** Reads an approval; `undefined` if the value is none. */
export function approvalIn(value: unknown): Approval | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const approval = value as Approval;
  const decision = decisionOf(approval.decision);
  if (typeof approval.id !== 'string' || decision === undefined) return undefined;
  return { ...approval, decision };
}

/** Returns `true` if an approval waits for the decision of a user who has not approved it yet. */
export const isWaitingFor = (user: string | undefined, { state, decision }: Approval): boolean =>
  state === 'waiting' && decision.mayDecide && (user === undefined || !decision.approvedBy.includes(user));
