// Edits a plan that waits for a decision: its goal and the titles of its steps, and which steps there are. What the form does not show of
// a step (its tool, its input) stays as it was.

import { ArrowDown, ArrowUp, Plus, Trash2 } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../record/isRecord';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { FIELD } from '../ui/field';
import { IconButton } from '../ui/IconButton';

interface Step {
  id: string;
  title: string;
  dependsOn?: string[];
  [field: string]: unknown;
}

/** The input of a call that makes a plan. */
export interface PlanInput {
  goal: string;
  steps: Step[];
  [field: string]: unknown;
}

interface Props {
  value: PlanInput;
  submit: string;
  isBusy: boolean;
  isOver: boolean;
  /** Why the last answer was refused. */
  error: unknown;
  onSubmit: (value: PlanInput) => void;
  /** More buttons, beside the first. */
  children?: ReactNode;
}

export function PlanEditor({ value, submit, isBusy, isOver, error, onSubmit, children }: Props) {
  const { t } = useTranslation('runs');
  const [goal, setGoal] = useState(value.goal);
  const [steps, setSteps] = useState(value.steps);
  const id = useId();
  const isWhole = goal.trim() !== '' && steps.length > 0 && steps.every(({ title }) => title.trim() !== '');
  const change = (place: number, title: string) => {
    setSteps(steps.map((step, at) => (at === place ? { ...step, title } : step)));
  };
  const swap = (place: number, other: number) => {
    setSteps(
      steps.map((step, at) => (at === place ? steps[other] : at === other ? steps[place] : step) ?? step),
    );
  };
  return (
    <form
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        if (isBusy || isOver || !isWhole) return;
        const known = new Set(steps.map((step) => step.id));
        const left = steps.map((step) => {
          // Nothing waits for a step that was taken out.
          const { dependsOn } = step;
          return dependsOn === undefined
            ? step
            : { ...step, dependsOn: dependsOn.filter((id) => known.has(id)) };
        });
        onSubmit({ ...value, goal, steps: left });
      }}
    >
      <div className="space-y-1">
        <label htmlFor={id} className="text-sm font-medium">
          {t('plan.goal')}
        </label>
        <input
          dir="auto"
          id={id}
          // The form has just been asked for.
          // eslint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          value={goal}
          onChange={(event) => {
            setGoal(event.target.value);
          }}
          className={FIELD}
        />
      </div>
      <ol className="space-y-2">
        {steps.map((step, place) => (
          <li key={step.id} className="flex items-center gap-1">
            <input
              dir="auto"
              aria-label={t('plan.stepLabel', { number: place + 1 })}
              value={step.title}
              onChange={(event) => {
                change(place, event.target.value);
              }}
              className={FIELD}
            />
            <IconButton
              label={t('plan.up', { number: place + 1 })}
              disabled={place === 0}
              onClick={() => {
                swap(place, place - 1);
              }}
            >
              <ArrowUp aria-hidden className="size-4" />
            </IconButton>
            <IconButton
              label={t('plan.down', { number: place + 1 })}
              disabled={place === steps.length - 1}
              onClick={() => {
                swap(place, place + 1);
              }}
            >
              <ArrowDown aria-hidden className="size-4" />
            </IconButton>
            <IconButton
              label={t('plan.remove', { number: place + 1 })}
              disabled={steps.length === 1}
              onClick={() => {
                setSteps(steps.filter((_, at) => at !== place));
              }}
            >
              <Trash2 aria-hidden className="size-4" />
            </IconButton>
          </li>
        ))}
      </ol>
      <Button
        tone="quiet"
        onClick={() => {
          setSteps([...steps, { id: unusedId(steps), title: '' }]);
        }}
      >
        <Plus aria-hidden className="size-4" />
        {t('plan.add')}
      </Button>
      <AnswerError error={error} />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" tone="primary" isBusy={isBusy} disabled={isOver || !isWhole}>
          {submit}
        </Button>
        {children}
      </div>
    </form>
  );
}

function unusedId(steps: readonly Step[]): string {
  let number = steps.length + 1;
  while (steps.some(({ id }) => id === `step_${number}`)) number += 1;
  return `step_${number}`;
}

/** Returns `true` if a value is what the editor can show. */
export const isPlanInput = (value: unknown): value is PlanInput =>
  isRecord(value) &&
  typeof value['goal'] === 'string' &&
  Array.isArray(value['steps']) &&
  value['steps'].every(isStep);

const isStep = (step: unknown): step is Step =>
  isRecord(step) &&
  typeof step['id'] === 'string' &&
  typeof step['title'] === 'string' &&
  (step['dependsOn'] === undefined || Array.isArray(step['dependsOn']));
