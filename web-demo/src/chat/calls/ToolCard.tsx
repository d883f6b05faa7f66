// One tool call in a message: what it is, how far it is, what it was given, and what came of it; and the
// questions it has for a person.
//
// What is shown follows from the part and its message alone; what the person is just typing is all that lives
// here. A settled call is drawn once, however many deltas come after it.

import {
  Ban,
  Check,
  CircleDashed,
  Hourglass,
  LoaderCircle,
  TriangleAlert,
  UserRound,
  ChevronDown,
  type LucideIcon,
} from 'lucide-react';
import { memo, useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { getToolName, type UIMessage } from 'ai';
import { isReadExactly, planOf, type FermataChat, type NoOutput, type Plan } from 'fermata-chat';
import { useCallStatus } from 'fermata-chat/react';
import { pageRuns, pageTool } from '../../tools';
import { isRecord } from '../record/isRecord';
import { planCallOf } from '../record/message';
import { isToldTheSame, toldOfCall, type ToldOfCall } from '../record/toldOfCall';
import {
  callState,
  isSettled,
  runBy,
  type AnyToolPart,
  type CallState,
  type OwnTools,
  type ServerTools,
} from '../record/toolState';
import { isPlan, PlanSteps, usePlanWords } from '../runs/PlanList';
import { inOneLine, invisibleIn, mixedIn } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { useAnswer } from '../ui/useAnswer';
import { useDurationWords } from '../ui/words';
import { isCut } from '../values/cut';
import { useSeen, WholeInput } from '../values/seen';
import { hasMedia, ToolResult } from '../values/ToolResult';
import { LongText, ValueSection } from '../values/ToolValue';
import { ApprovalQuestion } from './ApprovalCard';
import { askedCall, useAsked } from './asked';
import { CallActions } from './CallActions';
import { CallDetails, isDetails } from './CallDetails';
import { ToolProgress } from './ToolProgress';
import { useDecisionKeys } from './useDecisionKeys';
import { useDuration } from './useDuration';

export type { AnyToolPart, ServerTools } from '../record/toolState';

export interface ToolCardProps {
  part: AnyToolPart;
  chat: FermataChat;
  /** The message that the part stands in. */
  message: UIMessage;
  /** The response of `GET /api/tools`. */
  tools?: ServerTools | undefined;
  /** `true` if something else on the page tells what the call has done. */
  isQuiet?: boolean;
  /** `true` if the message is still being written. */
  isGrowing?: boolean;
}

/** The card of a call. */
export const ToolCard = memo(Card, (before, after) => {
  if (before.chat !== after.chat || before.tools !== after.tools) return false;
  if (before.isQuiet !== after.isQuiet || before.isGrowing !== after.isGrowing) return false;
  const { part } = after;
  // Parts are new objects with every delta of the message; what is settled changes no more.
  const isSame = before.part.toolCallId === part.toolCallId && before.part.state === part.state;
  if (!isSame || !isSettled(before.part) || !isSettled(part)) return false;
  const own = after.tools?.own;
  if (planIn(before.message, part, own) !== planIn(after.message, part, own)) return false;
  return isToldTheSame(before.message, after.message, part.toolCallId);
});

/** The plan that a call has made, if its card is to show it. */
function planIn(message: UIMessage, part: AnyToolPart, own: OwnTools | undefined): Plan | undefined {
  if (planCallOf(message, own) !== part.toolCallId) return undefined;
  const plan = planOf(message);
  return isPlan(plan) ? plan : undefined;
}

function Card({ part, chat, message, tools, isQuiet = false, isGrowing = false }: ToolCardProps) {
  const { t } = useTranslation('cards');
  const name = getToolName(part);
  const surroundings = { tools, pageRuns };
  const status = useCallStatus(chat, part.toolCallId);
  const plan = planIn(message, part, tools?.own);
  const told = toldOfCall(message, part.toolCallId, status);
  const { noOutput } = told;
  const state = callState(part, { status, noOutput }, surroundings);
  const who = runBy(part, status, surroundings);
  // While it waits for a reply to a question of its own, the time is the person's.
  const isRunning = state.name === 'running' && status?.waitsFor !== 'person';
  const duration = useDuration(part.toolCallId, isRunning, isSettled(part), told.durationMs);
  const server = serverOf(part) ?? status?.server;
  // An MCP server can call its tool anything, so its title never stands in place of the tool's name.
  const isForeign = server !== undefined || who === 'mcp';
  const sentence = isQuiet ? undefined : plan === undefined ? saidOf(part) : inOneLine(plan.goal);
  const isSaid = !isForeign && sentence !== undefined;
  const title = sentence ?? (part.title === undefined ? undefined : inOneLine(part.title));
  const [isOpenByHand, setOpen] = useState<boolean>();
  const isOpen = isOpenByHand ?? opensByItself(part, state, plan);
  const open = () => {
    setOpen(true);
  };
  const details = useId();
  const card = useKeptFocus(state.name);
  useDecisionKeys(card);
  return (
    <article
      ref={card}
      // One that waits for a decision takes its keys.

      tabIndex={part.state === 'approval-requested' ? 0 : -1}
      aria-label={t('card.label', { name })}
      data-tool={name}
      data-state={state.name}
      className={
        `group/card rounded-card text-ink outline-none ${isQuiet ? '' : 'border border-field bg-raised'} ` +
        'focus-visible:outline-2 focus-visible:outline-accent'
      }
    >
      <Header
        {...{ name, state, who, server, told, duration, plan, isOpen, details, isQuiet }}
        title={isForeign ? part.title : title}
        isForeign={isForeign}
        isUnderWay={state.name === 'done' && plan?.state === 'accepted' && isGrowing}
        gist={isQuiet || isSaid || pageTool(name)?.Body !== undefined ? '' : gistOf(part.input)}
        onToggle={() => {
          setOpen(!isOpen);
        }}
      />
      <Body
        {...{ part, chat, state, who, tools, plan, isGrowing, isOpen, details, open }}
        title={(isForeign ? undefined : title) ?? ''}
        errorType={told.errorType}
        noOutput={noOutput}
        isEdited={status?.editing === true}
      />
    </article>
  );
}

/** Folded away is what needs nobody, and an input that the card shows in other words. */
function opensByItself(part: AnyToolPart, state: CallState, plan: Plan | undefined): boolean {
  if (part.state === 'approval-requested')
    return !(plan !== undefined || isDetails(part.toolMetadata?.['details'])) || isTricky(part);
  return state.name === 'done' && hasMedia(part.output);
}

/** Returns `true` if a person should look at the input itself: it is long, or not what it seems. */
function isTricky(part: AnyToolPart): boolean {
  const { input } = part;
  const inputText = askedCall(part)?.inputText;
  return (
    isCut(input) ||
    invisibleIn(input).length > 0 ||
    mixedIn(input).length > 0 ||
    (inputText !== undefined && !isReadExactly(inputText))
  );
}

/** A button that goes away once its question is answered must not take the focus with it. */
function useKeptFocus(state: CallState['name']) {
  const card = useRef<HTMLElement>(null);
  const hadFocus = useRef(false);
  useEffect(() => {
    if (hadFocus.current && document.activeElement === document.body)
      card.current?.focus({ preventScroll: true });
  }, [state]);
  useEffect(() => {
    const note = () => {
      // An element that is taken out of the page leaves the focus with the body, and tells nobody.
      if (document.activeElement !== document.body)
        hadFocus.current = card.current?.contains(document.activeElement) ?? false;
    };
    const noteElsewhere = ({ target }: Event) => {
      if (target instanceof Node && !card.current?.contains(target)) hadFocus.current = false;
    };
    document.addEventListener('focusin', note);
    document.addEventListener('pointerdown', noteElsewhere);
    return () => {
      document.removeEventListener('focusin', note);
      document.removeEventListener('pointerdown', noteElsewhere);
    };
  }, []);
  return card;
}

// === the line at the top ===

const MARKS: Record<CallState['name'], { Icon: LucideIcon; look: string; turns?: boolean }> = {
  preparing: { Icon: CircleDashed, look: 'bg-sunken text-muted', turns: true },
  'waits-for-you': { Icon: UserRound, look: 'bg-wait-soft text-wait' },
  'waits-for-others': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-resource': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-capacity': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-page': { Icon: Hourglass, look: 'bg-wait-soft text-wait' },
  running: { Icon: LoaderCircle, look: 'bg-accent-soft text-accent', turns: true },
  done: { Icon: Check, look: 'bg-good-soft text-good' },
  failed: { Icon: TriangleAlert, look: 'bg-bad-soft text-bad' },
  denied: { Icon: Ban, look: 'bg-sunken text-muted' },
  cancelled: { Icon: Ban, look: 'bg-sunken text-muted' },
};

interface HeaderProps {
  name: string;
  title: string | undefined;
  /** The MCP server that offers the tool. */
  server: string | undefined;
  state: CallState;
  who: ReturnType<typeof runBy>;
  told: ToldOfCall;
  duration: number | undefined;
  plan: Plan | undefined;
  isForeign: boolean;
  /** `true` if the call is done, and what it has planned is not. */
  isUnderWay: boolean;
  gist: string;
  isOpen: boolean;
  details: string;
  isQuiet: boolean;
  onToggle: () => void;
}

function Header({
  name,
  title,
  server,
  state,
  who,
  told,
  duration,
  plan,
  isForeign,
  isUnderWay,
  gist,
  isOpen,
  details,
  isQuiet,
  onToggle,
}: HeaderProps) {
  const { t } = useTranslation('cards');
  const inWords = useDurationWords();
  const planWords = usePlanWords();
  const { Icon, look, turns = false } = MARKS[isUnderWay ? 'running' : state.name];
  const ownTitle = isForeign ? undefined : title;
  return (
    <header
      className={
        'relative flex items-center gap-3 ' + (isQuiet ? 'min-h-10 pr-1' : 'min-h-14 py-2 pr-1 pl-3')
      }
    >
      <span
        aria-hidden
        className={
          'grid shrink-0 place-items-center rounded-full ' +
          (isQuiet ? 'size-6 text-muted' : `size-8 ${look}`)
        }
      >
        <Icon
          className={`size-4 ${turns ? 'motion-safe:animate-spin motion-safe:[animation-duration:1.6s]' : ''}`}
        />
      </span>
      <div className={isQuiet ? 'flex min-w-0 flex-1 flex-wrap items-baseline gap-x-2' : 'min-w-0 flex-1'}>
        <h2 className="flex flex-wrap items-baseline gap-x-2 text-sm leading-5">
          {ownTitle !== undefined && <bdi className="font-medium wrap-anywhere">{ownTitle}</bdi>}
          <span
            className={`font-mono wrap-anywhere ${ownTitle === undefined ? 'font-medium' : 'text-xs text-muted'}`}
          >
            {inOneLine(name)}
          </span>
          {server !== undefined ? (
            <span className="text-xs text-muted wrap-anywhere">
              {t('who.server_of_mcp', { server: inOneLine(server) })}
            </span>
          ) : (
            who !== 'server' && <span className="text-xs text-muted">{t(`who.${who}`)}</span>
          )}
        </h2>
        {isForeign && title !== undefined && (
          <p className="text-xs leading-5 text-muted wrap-anywhere">
            {t('card.foreignTitle', { title: inOneLine(title) })}
          </p>
        )}
        <p className="truncate text-xs leading-5 text-muted">
          <span role="status" className={state.name === 'waits-for-you' ? 'font-medium text-wait' : ''}>
            {plan !== undefined && state.name === 'done' ? planWords(plan) : stateWords(state, t)}
            {state.name === 'failed' && told.errorType !== undefined && `: ${t(`trouble.${told.errorType}`)}`}
          </span>
          <Followed state={state} told={told} />
          {told.attempts !== undefined && <span> · {t('trouble.attempts', { count: told.attempts })}</span>}
          {duration !== undefined && plan === undefined && (
            <span className="tabular-nums"> · {inWords(duration)}</span>
          )}
          {state.name === 'done' && told.errorType !== undefined && (
            <span> · {t(`trouble.${told.errorType}`)}</span>
          )}
          {!isOpen && gist !== '' && <span> · {gist}</span>}
        </p>
      </div>
      <button
        type="button"
        aria-expanded={isOpen}
        aria-controls={details}
        aria-label={t('card.details', { name })}
        onClick={onToggle}
        className={
          'grid size-10 shrink-0 place-items-center rounded-lg text-muted after:absolute after:inset-0 ' +
          'hover:text-ink focus-visible:outline-2 focus-visible:outline-accent'
        }
      >
        <ChevronDown
          aria-hidden
          className={`size-4 motion-safe:transition-transform ${isOpen ? 'rotate-180' : ''}`}
        />
      </button>
    </header>
  );
}

/** The consequence of a call that failed or found nothing, or the call that this one follows. */
function Followed({ state, told }: { state: CallState; told: ToldOfCall }) {
  const { t } = useTranslation('runs');
  const { inPlaceOf, replacedBy, strategy } = told;
  return (
    <>
      {inPlaceOf !== undefined && <span> · {t('inPlaceOf', { tool: inOneLine(inPlaceOf) })}</span>}
      {replacedBy !== undefined && <span> · {t('replacedBy', { tool: inOneLine(replacedBy) })}</span>}
      {state.name === 'failed' && replacedBy === undefined && strategy !== undefined && (
        <span> · {t(`followed.${strategy}`)}</span>
      )}
    </>
  );
}

/** The MCP server that offers the tool of a call. */
function serverOf(part: AnyToolPart): string | undefined {
  const server = part.toolMetadata?.['server'];
  return typeof server === 'string' ? server : askedCall(part)?.server;
}

/** The call in the words of its tool. */
function saidOf(part: AnyToolPart): string | undefined {
  const said = part.toolMetadata?.['description'];
  return typeof said === 'string' ? inOneLine(said) : undefined;
}

/**
 * The gist of a folded call: the short values of its input. A card with a body of its own shows that itself.
 */
function gistOf(input: unknown): string {
  if (!isRecord(input)) return '';
  const short = Object.values(input).filter(
    (value) => typeof value === 'number' || (typeof value === 'string' && value !== ''),
  );
  return short
    .slice(0, 3)
    .map((value) => inOneLine(String(value).slice(0, 80)))
    .join(', ');
}

/** The progress of a call, for a person. */
export function stateWords(state: CallState, t: ReturnType<typeof useTranslation<'cards'>>['t']): string {
  return state.name === 'waits-for-resource'
    ? t('state.waits-for-resource', { resource: state.resource })
    : t(`state.${state.name}`);
}

// === what is under it ===

interface BodyProps {
  part: AnyToolPart;
  chat: FermataChat;
  state: CallState;
  who: ReturnType<typeof runBy>;
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
  open: () => void;
}

function Body({
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
  open,
}: BodyProps) {
  const name = getToolName(part);
  const whole = useSeen(part.approval?.id ?? '');
  const schema = pageTool(name)?.inputSchema ?? tools?.listed.find((tool) => tool.name === name)?.inputSchema;
  return (
    <div className="space-y-3 px-3 *:last:mb-3 sm:pl-14">
      <Outcome {...{ part, state, noOutput }} />
      <PageBody part={part} chat={chat} state={state} />
      {(who === 'server' || who === 'mcp') && errorType !== 'denied' && (
        <CallActions {...{ chat, name, state }} toolCallId={part.toolCallId} />
      )}
      {/* While the input is edited, they would show what it was. */}
      <div className="empty:hidden group-has-data-editing/card:hidden">
        {isWorthShowing(part) && <CallDetails data={part.toolMetadata?.['details']} title={title} />}
        {plan !== undefined && <PlanSteps plan={plan} isGrowing={isGrowing} />}
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
          key={part.approval.id}
          {...{ chat, name, schema, isEdited }}
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

/** The effect of a call is shown until the call is over. */
const isWorthShowing = (part: AnyToolPart) =>
  part.state === 'approval-requested' ||
  part.state === 'approval-responded' ||
  part.state === 'input-available';

/** The input of a call that waits for a decision, as it would run. */
function AskedDetails({ chat, part, approvalId }: Pick<BodyProps, 'chat' | 'part'> & { approvalId: string }) {
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
function Outcome({ part, state, noOutput }: Pick<BodyProps, 'part' | 'state' | 'noOutput'>): ReactNode {
  const { t } = useTranslation('cards');
  if (part.state === 'output-available' && part.preliminary === true)
    return <ToolProgress output={part.output} />;
  if (state.name === 'denied') {
    const reason = noOutput?.reason ?? part.approval?.reason;
    return reason === undefined || reason === '' ? null : <Note>{t('card.deniedBecause', { reason })}</Note>;
  }
  if (part.state !== 'output-error') return null;
  const cancelled = CANCELLED.find((code) => state.name === 'cancelled' && code === noOutput?.code);
  if (cancelled !== undefined) return <Note>{t(`cancelled.${cancelled}`)}</Note>;
  return <Note isBad={state.name === 'failed'}>{part.errorText}</Note>;
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
function PageBody({ part, chat, state }: Pick<BodyProps, 'part' | 'chat' | 'state'>) {
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
