// The line at the top of a call's card: what the call is, who runs it, and how far it is.

import {
  AppWindow,
  Ban,
  Check,
  CircleDashed,
  Hourglass,
  LoaderCircle,
  Plug,
  Server,
  TriangleAlert,
  UserRound,
  UsersRound,
  ChevronDown,
  type LucideIcon,
} from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { Plan } from 'fermata-chat';
import type { ToldOfCall } from '../record/toldOfCall';
import type { CallState, RunBy } from '../record/toolState';
import { usePlanWords } from '../runs/PlanList';
import { inOneLine } from '../text/visible';
import { useDurationWords } from '../ui/words';

const MARKS: Record<CallState['name'], { Icon: LucideIcon; look: string; turns?: boolean }> = {
  preparing: { Icon: CircleDashed, look: 'bg-sunken text-muted', turns: true },
  'waits-for-you': { Icon: UserRound, look: 'bg-wait-soft text-wait' },
  'waits-for-people': { Icon: UsersRound, look: 'bg-sunken text-muted' },
  'waits-for-others': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-resource': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-capacity': { Icon: Hourglass, look: 'bg-sunken text-muted' },
  'waits-for-page': { Icon: Hourglass, look: 'bg-wait-soft text-wait' },
  approved: { Icon: Check, look: 'bg-good-soft text-good' },
  running: { Icon: LoaderCircle, look: 'bg-accent-soft text-accent', turns: true },
  done: { Icon: Check, look: 'bg-good-soft text-good' },
  failed: { Icon: TriangleAlert, look: 'bg-bad-soft text-bad' },
  denied: { Icon: Ban, look: 'bg-sunken text-muted' },
  cancelled: { Icon: Ban, look: 'bg-sunken text-muted' },
};

export interface CallHeaderProps {
  name: string;
  title: string | undefined;
  /** The MCP server that offers the tool. */
  server: string | undefined;
  state: CallState;
  who: RunBy;
  told: ToldOfCall;
  duration: number | undefined;
  plan: Plan | undefined;
  /** `true` if a later message has the plan. */
  isPlanContinued: boolean;
  isForeign: boolean;
  /** `true` if the call is done, and what it has planned is not. */
  isUnderWay: boolean;
  gist: string;
  isOpen: boolean;
  details: string;
  isQuiet: boolean;
  onToggle: () => void;
}

export function CallHeader({
  name,
  title,
  server,
  state,
  who,
  told,
  duration,
  plan,
  isPlanContinued,
  isForeign,
  isUnderWay,
  gist,
  isOpen,
  details,
  isQuiet,
  onToggle,
}: CallHeaderProps) {
  const { t } = useTranslation('cards');
  const { t: tRuns } = useTranslation('runs');
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
          <span className="inline-flex min-w-0 items-baseline gap-2">
            <span
              className={`font-mono wrap-anywhere ${ownTitle === undefined ? 'font-medium' : 'text-xs text-muted'}`}
            >
              {inOneLine(name)}
            </span>
            {server === undefined && <Place who={who} />}
          </span>
          {server !== undefined && (
            <span className="text-xs text-muted wrap-anywhere">
              {t('who.server_of_mcp', { server: inOneLine(server) })}
            </span>
          )}
        </h2>
        {isForeign && title !== undefined && (
          <p className="text-xs leading-5 text-muted wrap-anywhere">
            {t('card.foreignTitle', { title: inOneLine(title) })}
          </p>
        )}
        <p className="truncate text-xs leading-5 text-muted">
          <span role="status" className={state.name === 'waits-for-you' ? 'font-medium text-wait' : ''}>
            {plan !== undefined && state.name === 'done'
              ? isPlanContinued
                ? tRuns('plan.continued')
                : planWords(plan)
              : stateWords(state, t)}
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

const PLACES: Record<RunBy, LucideIcon> = {
  server: Server,
  mcp: Plug,
  page: AppWindow,
  elsewhere: AppWindow,
};

/** Where a call runs. */
function Place({ who }: { who: RunBy }) {
  const { t } = useTranslation('cards');
  const Icon = PLACES[who];
  return (
    <span
      role="img"
      aria-label={t(`who.${who}`)}
      title={t(`who.${who}`)}
      className="shrink-0 self-center text-muted"
    >
      <Icon className="size-3.5" aria-hidden="true" />
    </span>
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

/** The progress of a call, for a person. */
export function stateWords(state: CallState, t: ReturnType<typeof useTranslation<'cards'>>['t']): string {
  return state.name === 'waits-for-resource'
    ? t('state.waits-for-resource', { resource: state.resource })
    : t(`state.${state.name}`);
}
