// One tool call in a message: what it is, how far it is, what it was given, and what came of it; and the
// questions it has for a person.
//
// What is shown follows from the part and its message alone; what the person is just typing is all that lives
// here. A settled call is drawn once, however many deltas come after it.

import { memo, useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { getToolName, type UIMessage } from 'ai';
import { isReadExactly, planOf, type Plan } from 'fermata-chat';
import { useCallStatus } from 'fermata-chat/react';
import { isPageTool, pageRuns, pageTool } from '../../tools';
import { isRecord } from '../record/isRecord';
import { planCallOf } from '../record/message';
import { isToldTheSame, toldOfCall } from '../record/toldOfCall';
import {
  callState,
  isSettled,
  runBy,
  type AnyToolPart,
  type CallState,
  type CardChat,
  type OwnTools,
  type ServerTools,
} from '../record/toolState';
import { isPlan } from '../runs/PlanList';
import { inOneLine, invisibleIn, mixedIn } from '../text/visible';
import { isCut } from '../values/cut';
import { hasMedia } from '../values/ToolResult';
import { askedCall } from './asked';
import { CallBody } from './CallBody';
import { isDetails } from './CallDetails';
import { CallHeader } from './CallHeader';
import { saidWords, titleWords } from './said';
import { useDecisionKeys } from './useDecisionKeys';
import { useDuration } from './useDuration';

export type { AnyToolPart, ServerTools } from '../record/toolState';

export interface ToolCardProps {
  part: AnyToolPart;
  chat: CardChat;
  /** The message that the part stands in. */
  message: UIMessage;
  /** The response of `GET /api/tools`. */
  tools?: ServerTools | undefined;
  /** `true` if something else on the page tells what the call has done. */
  isQuiet?: boolean;
  /** `true` if the message is still being written. */
  isGrowing?: boolean;
  /** `true` if a later message has the plan of this one. */
  isPlanContinued?: boolean;
  /** The state of an approval that is shown without its chat. It overrides the state of the part. */
  state?: CallState | undefined;
  /** The name of the person, where it is known. */
  me?: string | undefined;
  /** The page's own facts about the call, above everything else. */
  children?: ReactNode;
}

/** The card of a call. */
export const ToolCard = memo(Card, (before, after) => {
  if (before.chat !== after.chat || before.tools !== after.tools) return false;
  if (before.isQuiet !== after.isQuiet || before.isGrowing !== after.isGrowing) return false;
  if (before.isPlanContinued !== after.isPlanContinued) return false;
  if (before.state !== after.state || before.me !== after.me || before.children !== after.children)
    return false;
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

function Card({
  part,
  chat,
  message,
  tools,
  isQuiet = false,
  isGrowing = false,
  isPlanContinued = false,
  state: givenState,
  me,
  children,
}: ToolCardProps) {
  const { t } = useTranslation('cards');
  const name = getToolName(part);
  const surroundings = { tools, pageRuns };
  const status = useCallStatus(chat, part.toolCallId);
  const plan = planIn(message, part, tools?.own);
  const told = toldOfCall(message, part.toolCallId, status);
  const { noOutput } = told;
  const state = givenState ?? callState(part, { status, noOutput }, surroundings);
  const who = runBy(part, status, surroundings);
  // While it waits for a reply to a question of its own, the time is the person's.
  const isRunning = state.name === 'running' && status?.waitsFor !== 'person';
  const duration = useDuration(part.toolCallId, isRunning, isSettled(part), told.durationMs);
  const server = serverOf(part) ?? status?.server;
  // An MCP server can call its tool anything, so its title never stands in place of the tool's name.
  const isForeign = server !== undefined || who === 'mcp';
  const said = saidOf(part);
  const words =
    said !== undefined && isForeign ? inOneLine(said) : said && saidWords(said, name, part.input, t);
  const sentence = isQuiet ? undefined : plan === undefined ? words : inOneLine(plan.goal);
  const isSaid = !isForeign && sentence !== undefined;
  const ofPage = who === 'page' && isPageTool(name) ? t(`pageTools.${name}`) : undefined;
  const title = sentence ?? (part.title === undefined ? ofPage : titleWords(part.title, name, t));
  const [isOpenByHand, setOpen] = useState<boolean>();
  const isOpen = isOpenByHand ?? opensByItself(part, state, plan);
  const open = () => {
    setOpen(true);
  };
  const details = useId();
  const card = useKeptFocus();
  useDecisionKeys(card);
  return (
    <article
      ref={card}
      // One that waits for a decision takes its keys.
      tabIndex={state.name === 'waits-for-you' ? 0 : -1}
      aria-label={t('card.label', { name })}
      data-tool={name}
      data-call={part.toolCallId}
      data-state={state.name}
      className={
        `group/card rounded-card text-ink outline-none ${isQuiet ? '' : 'border border-field bg-raised'} ` +
        'focus-visible:outline-2 focus-visible:outline-accent'
      }
    >
      <CallHeader
        {...{ name, state, who, server, told, duration, plan, isPlanContinued, isOpen, details, isQuiet }}
        title={isForeign ? part.title : title}
        isForeign={isForeign}
        isUnderWay={state.name === 'done' && plan?.state === 'accepted' && isGrowing && !isPlanContinued}
        gist={isQuiet || isSaid || pageTool(name)?.Body !== undefined ? '' : gistOf(part.input)}
        onToggle={() => {
          setOpen(!isOpen);
        }}
      />
      <CallBody
        {...{ part, chat, state, who, tools, isGrowing, isOpen, details, open }}
        plan={isPlanContinued ? undefined : plan}
        title={(isForeign ? undefined : title) ?? ''}
        errorType={told.errorType}
        noOutput={noOutput}
        isEdited={status?.editing === true}
        decision={status?.decision}
        me={me}
      >
        {children}
      </CallBody>
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

/** Keeps the focus in the card when the button or field that has it goes away. */
function useKeptFocus() {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    const { current } = card;
    if (current === null) return undefined;
    let hadFocus = false;
    const note = () => {
      // An element that is taken out of the page leaves the focus with the body, and tells nobody.
      if (document.activeElement !== document.body) hadFocus = current.contains(document.activeElement);
    };
    const noteElsewhere = ({ target }: Event) => {
      if (target instanceof Node && !current.contains(target)) hadFocus = false;
    };
    const changes = new MutationObserver(() => {
      if (hadFocus && document.activeElement === document.body) current.focus({ preventScroll: true });
    });
    changes.observe(current, { childList: true, subtree: true });
    document.addEventListener('focusin', note);
    document.addEventListener('pointerdown', noteElsewhere);
    return () => {
      changes.disconnect();
      document.removeEventListener('focusin', note);
      document.removeEventListener('pointerdown', noteElsewhere);
    };
  }, []);
  return card;
}

/** The MCP server that offers the tool of a call. */
function serverOf(part: AnyToolPart): string | undefined {
  const server = part.toolMetadata?.['server'];
  return typeof server === 'string' ? server : askedCall(part)?.server;
}

/** The call in the words of its tool. */
function saidOf(part: AnyToolPart): string | undefined {
  const said = part.toolMetadata?.['description'];
  return typeof said === 'string' ? said : undefined;
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
