// What a call's card has below its line: progress, the effect, the input and the result, and what a person can decide or do.

import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { getToolName } from 'ai';
import type { ApprovalDecision, NoOutput, Plan } from 'fermata-chat';
import { pageTool } from '../../tools';
import type { ToldOfCall } from '../record/toldOfCall';
import type { AnyToolPart, CallState, CardChat, RunBy, ServerTools } from '../record/toolState';
import { DropPlan } from '../runs/DropPlan';
import { PlanSteps } from '../runs/PlanList';
import { AnswerError } from '../ui/AnswerError';
import { useAnswer } from '../ui/useAnswer';
import { useSeen, WholeInput } from '../values/seen';
import { ToolResult } from '../values/ToolResult';
import { LongText, ValueSection } from '../values/ToolValue';
import { ApprovalQuestion, type May } from './ApprovalCard';
import { askedCall, useAsked } from './asked';
import { CallActions } from './CallActions';
import { CallDetails } from './CallDetails';
import { Deciders } from './Deciders';
import { ToolProgress } from './ToolProgress';

export interface CallBodyProps {
  part: AnyToolPart;
  chat: CardChat;
  state: CallState;
  who: RunBy;
  tools: ServerTools | undefined;
  isOpen: boolean;
  details: string;
  errorType: ToldOfCall['errorType'];
  noOutput: NoOutput | undefined;
  /** The title of the card, unless it is one that an MCP server gave. */
  title: string;
  plan: Plan | undefined;
  /** `true` if the message is still being written. */
  isGrowing: boolean;
  /** `true` if a person edits the input, here or in another tab. */
  isEdited: boolean;
  /** Who decides, while the call waits for a decision. */
  decision: ApprovalDecision | undefined;
  /** The name of the person, where it is known. */
  me: string | undefined;
  open: () => void;
  /** The page's own facts about the call. */
  children: ReactNode;
}

export function CallBody({
  part,
  chat,
  state,
  who,
  tools,
  isOpen,
  details,
  errorType,
  noOutput,
  title,
  plan,
  isGrowing,
  isEdited,
  decision,
  me,
  open,
  children,
}: CallBodyProps) {
  const name = getToolName(part);
  const may = mayOf(state, decision, me);
  const whole = useSeen(part.approval?.id ?? '');
  const schema = pageTool(name)?.inputSchema ?? tools?.listed.find((tool) => tool.name === name)?.inputSchema;
  return (
    <div className="space-y-3 px-3 *:last:mb-3 sm:pl-14">
      {children}
      <Outcome {...{ part, state, noOutput }} />
      {(state.name === 'waits-for-you' || state.name === 'waits-for-people') && (
        <Deciders {...{ decision, me }} isOthers={state.name === 'waits-for-people'} />
      )}
      <PageBody part={part} chat={chat} state={state} />
      {(who === 'server' || who === 'mcp') && errorType !== 'denied' && (
        <CallActions {...{ chat, name, state }} toolCallId={part.toolCallId} />
      )}
      {/* While the input is edited, they would show what it was. */}
      <div className="empty:hidden group-has-data-editing/card:hidden">
        {isWorthShowing(part) && <CallDetails data={part.toolMetadata?.['details']} title={title} />}
        {plan !== undefined && (
          <>
            <PlanSteps plan={plan} isGrowing={isGrowing} />
            <DropPlan {...{ chat, plan, isGrowing }} />
          </>
        )}
      </div>
      <div id={details} hidden={!isOpen} className="space-y-3 group-has-data-editing/card:hidden">
        {isOpen && (
          <WholeInput value={part.state === 'approval-requested' ? whole : undefined}>
            {part.state === 'approval-requested' ? (
              <AskedDetails chat={chat} part={part} approvalId={part.approval.id} />
            ) : (
              <Details part={part} isTranslated={state.name === 'cancelled'} />
            )}
          </WholeInput>
        )}
      </div>
      {part.state === 'approval-requested' && (
        <ApprovalQuestion
          key={`${part.approval.id} ${may}`}
          {...{ chat, name, schema, isEdited, may }}
          approvalId={part.approval.id}
          toolCallId={part.toolCallId}
          told={askedCall(part)}
          input={part.input}
          isPlan={name === tools?.own?.makePlan}
          reason={part.approval.requestReason}
          onShowAll={open}
        />
      )}
    </div>
  );
}

/** What the person may do about a call that waits for a decision. */
function mayOf(state: CallState, decision: ApprovalDecision | undefined, me: string | undefined): May {
  if (decision?.mayDecide === true && me !== undefined && decision.approvedBy.includes(me)) return 'deny';
  return state.name === 'waits-for-you' ? 'decide' : 'look';
}

/** The effect of a call is shown until the call is over. */
const isWorthShowing = (part: AnyToolPart) =>
  part.state === 'approval-requested' ||
  part.state === 'approval-responded' ||
  part.state === 'input-available';

/** The input of a call that waits for a decision, as it would run. */
function AskedDetails({
  chat,
  part,
  approvalId,
}: Pick<CallBodyProps, 'chat' | 'part'> & { approvalId: string }) {
  const told = askedCall(part);
  const { exactInput } = useAsked(chat, { approvalId, toolCallId: part.toolCallId, reason: undefined, told });
  return <Details part={part} exactInput={exactInput} />;
}

/** The input of a call, and its result. */
function Details({
  part,
  exactInput,
  isTranslated = false,
}: {
  part: AnyToolPart;
  exactInput?: string | undefined;
  /** `true` if the card says in words of its own why the call has no output. */
  isTranslated?: boolean;
}) {
  const { t } = useTranslation('cards');
  const input = part.input ?? rawInput(part);
  const isDone = part.state === 'output-available';
  return (
    <>
      {exactInput !== undefined ? (
        <div role="group" aria-label={t('card.input')} className="space-y-1">
          <h3 className="text-xs font-medium text-muted">{t('card.exactInput')}</h3>
          <LongText text={exactInput} isCode />
        </div>
      ) : (
        input !== undefined && <ValueSection label={t('card.input')} value={input} />
      )}
      {isDone && (
        <ValueSection label={t(part.preliminary === true ? 'card.soFar' : 'card.result')} value={part.output}>
          <ToolResult output={part.output} />
        </ValueSection>
      )}
      {isTranslated && part.state === 'output-error' && (
        <ValueSection label={t('card.toldModel')} value={part.errorText} />
      )}
    </>
  );
}

/** The input that was no JSON, of a call that failed for it. */
function rawInput(part: AnyToolPart): unknown {
  const { rawInput } = part as { rawInput?: unknown };
  return rawInput;
}

/** Why a call was cancelled: each has words of its own. */
const CANCELLED = [
  'expired',
  'by_person',
  'stopped',
  'superseded',
  'run_ended',
  'not_first',
  'not_chosen',
] as const;

/** The facts to see without unfolding anything: progress, and why a call came to nothing. */
function Outcome({ part, state, noOutput }: Pick<CallBodyProps, 'part' | 'state' | 'noOutput'>): ReactNode {
  const { t } = useTranslation('cards');
  if (part.state === 'output-available' && part.preliminary === true)
    return <ToolProgress output={part.output} />;
  if (state.name === 'denied') {
    const reason = noOutput?.reason ?? part.approval?.reason;
    return reason === undefined || reason === '' ? null : <Note>{t('card.deniedBecause', { reason })}</Note>;
  }
  if (part.state !== 'output-error') return null;
  const cancelled = CANCELLED.find((code) => state.name === 'cancelled' && code === noOutput?.code);
  return (
    <>
      <Note isBad={state.name === 'failed'}>
        {cancelled === undefined ? part.errorText : t(`cancelled.${cancelled}`)}
      </Note>
      {noOutput?.lastOutput !== undefined && (
        <ValueSection label={t('card.lastOutput')} value={noOutput.lastOutput} />
      )}
    </>
  );
}

function Note({ isBad = false, children }: { isBad?: boolean; children: ReactNode }) {
  const look = isBad ? 'bg-bad-soft text-bad' : 'bg-sunken text-ink';
  return (
    <p
      dir="auto"
      className={`max-h-64 overflow-y-auto rounded-lg px-3 py-2 text-sm whitespace-pre-wrap wrap-anywhere ${look}`}
    >
      {children}
    </p>
  );
}

/** The body that a tool of this page shows. */
function PageBody({ part, chat, state }: Pick<CallBodyProps, 'part' | 'chat' | 'state'>) {
  const { give, isBusy, isOver, error } = useAnswer();
  const tool = getToolName(part);
  const ToolBody = pageTool(tool)?.Body;
  const stage = stageOf(part, state);
  if (ToolBody === undefined || stage === undefined) return null;
  const { toolCallId, input } = part;
  const settle = (outcome: { output: unknown } | { state: 'output-error'; errorText: string }) =>
    give('output', () => chat.addToolOutput({ tool, toolCallId, ...outcome }));
  return (
    <div className="space-y-3">
      <ToolBody
        {...{ toolCallId, input, stage }}
        output={part.state === 'output-available' ? part.output : undefined}
        isBusy={isBusy || isOver}
        answer={(output) => settle({ output })}
        fail={(errorText) => settle({ state: 'output-error', errorText })}
      />
      {stage === 'waiting' && <AnswerError error={error} />}
    </div>
  );
}

/** The stage of a call of this page, for its own card; `undefined` before there is anything to show. */
function stageOf(part: AnyToolPart, state: CallState): 'waiting' | 'working' | 'done' | 'over' | undefined {
  if (part.state === 'output-available') return part.preliminary === true ? 'working' : 'done';
  if (part.state === 'output-error' || part.state === 'output-denied') return 'over';
  if (part.state !== 'input-available' || state.name === 'waits-for-others') return undefined;
  return state.name === 'running' ? 'working' : 'waiting';
}
