// Drops the open plan of a chat.

import { FermataError, type FermataChat, type Plan } from 'fermata-chat';
import { useTranslation } from 'react-i18next';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { useAnswer } from '../ui/useAnswer';

interface Props {
  chat: Pick<FermataChat, 'dropPlan'>;
  plan: Plan;
  /** `true` while a run works on the plan. */
  isGrowing: boolean;
}

export function DropPlan({ chat, plan, isGrowing }: Props) {
  const { t } = useTranslation('runs');
  const { give, isBusy, isOver, error } = useAnswer();
  if (plan.state !== 'accepted' || isGrowing) return null;
  const isRunOpen = error instanceof FermataError && error.code === 'run_open';
  return (
    <div className="mt-3 space-y-2">
      <Button isBusy={isBusy} disabled={isOver} onClick={() => void give('drop', () => chat.dropPlan())}>
        {t('plan.drop')}
      </Button>
      {isRunOpen ? (
        <p role="alert" className="text-sm text-muted">
          {t('refused.plan_run_open')}
        </p>
      ) : (
        <AnswerError error={error} />
      )}
    </div>
  );
}
