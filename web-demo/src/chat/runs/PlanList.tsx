// The plan of a run: its steps, what each of them waits for, and how far it is. The card of the call that makes the plan shows it; it
// stands by itself only without that call.

import { Ban, Check, CircleDashed, LoaderCircle, TriangleAlert, type LucideIcon } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { FermataChat, Plan, PlanStep } from 'fermata-chat';
import { isRecord } from '../record/isRecord';
import { inOneLine } from '../text/visible';
import { DropPlan } from './DropPlan';

const MARKS: Record<PlanStep['state'], { Icon: LucideIcon; look: string; turns?: boolean }> = {
  todo: { Icon: CircleDashed, look: 'text-muted' },
  doing: { Icon: LoaderCircle, look: 'text-accent', turns: true },
  done: { Icon: Check, look: 'text-good' },
  failed: { Icon: TriangleAlert, look: 'text-bad' },
  skipped: { Icon: Ban, look: 'text-muted' },
};

interface PlanListProps {
  /** The data of a `data-plan`. Something else is shown as nothing. */
  data: unknown;
  chat: Pick<FermataChat, 'dropPlan'>;
  isGrowing: boolean;
  /** `true` if a later message has the plan. */
  isContinued?: boolean;
}

/** A plan by itself. */
export function PlanList({ data, chat, isGrowing, isContinued = false }: PlanListProps) {
  const { t } = useTranslation('runs');
  const words = usePlanWords();
  if (!isPlan(data)) return null;
  return (
    <div className="my-4 rounded-card border border-field bg-raised px-4 py-3">
      <h2 dir="auto" className="text-sm font-medium wrap-anywhere">
        {inOneLine(data.goal)}
      </h2>
      <p role="status" className="text-xs text-muted">
        {isContinued ? t('plan.continued') : words(data)}
      </p>
      {!isContinued && (
        <div className="mt-2">
          <PlanSteps plan={data} isGrowing={isGrowing} />
          <DropPlan plan={data} {...{ chat, isGrowing }} />
        </div>
      )}
    </div>
  );
}

/** The progress of a plan, in words. */
export function usePlanWords(): (plan: Plan) => string {
  const { t } = useTranslation('runs');
  return ({ state, steps }) => {
    const settled = steps.filter((step) => step.state !== 'todo' && step.state !== 'doing').length;
    return `${t(`plan.state.${state}`)} · ${t('plan.progress', { done: settled, count: steps.length })}`;
  };
}

/** The steps of a plan. */
export function PlanSteps({ plan: { state, steps }, isGrowing }: { plan: Plan; isGrowing: boolean }) {
  const { t } = useTranslation('runs');
  const numberOf = new Map(steps.map((step, place) => [step.id, place + 1]));
  return (
    // A group and no region: a chat with several plans would have as many landmarks of one name.
    <div role="group" aria-label={t('plan.label')} data-plan={state}>
      <ol className="space-y-1.5">
        {steps.map((step, place) => {
          const { Icon, look, turns = false } = MARKS[step.state];
          const after = step.dependsOn.flatMap((id) => numberOf.get(id) ?? []);
          const isOver = step.state === 'done' || step.state === 'skipped';
          return (
            <li key={step.id} data-step={step.state} className="flex items-baseline gap-2 text-sm">
              <span className="w-5 shrink-0 text-right text-xs text-muted tabular-nums">{place + 1}.</span>
              <Icon
                aria-hidden
                className={
                  `size-4 shrink-0 self-center ${look} ` +
                  // What is left behind by a run that has ended is not being done.
                  (turns && isGrowing ? 'motion-safe:animate-spin motion-safe:[animation-duration:1.6s]' : '')
                }
              />
              <span className="min-w-0 wrap-anywhere">
                <span className="sr-only">{t(`plan.step.${step.state}`)}: </span>
                <bdi className={isOver ? 'text-muted line-through decoration-line' : ''}>
                  {inOneLine(step.title)}
                </bdi>
                {step.tool !== undefined && (
                  <span className="ml-2 font-mono text-xs text-muted">{inOneLine(step.tool)}</span>
                )}
                {after.length > 0 && (
                  <span className="ml-2 text-xs whitespace-nowrap text-muted">
                    {t('plan.after', { steps: after.join(', ') })}
                  </span>
                )}
              </span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

export const isPlan = (data: unknown): data is Plan =>
  isRecord(data) && typeof data['goal'] === 'string' && Array.isArray(data['steps']);
