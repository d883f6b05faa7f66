// Asks before all memories are deleted.

import { useTranslation } from 'react-i18next';
import { AnswerError } from '../ui/AnswerError';
import { ConfirmDialog } from '../ui/ConfirmDialog';
import { useAction } from '../ui/useAction';

interface Props {
  /** The number of memories. */
  count: number;
  onDelete: () => Promise<unknown>;
  onDone: () => void;
}

export function DeleteAllDialog({ count, onDelete, onDone }: Props) {
  const { t } = useTranslation('memory');
  const { act, error } = useAction();
  const confirm = async () => {
    if (await act(onDelete)) onDone();
  };
  return (
    <ConfirmDialog
      title={t('deleteAll.title')}
      text={t('deleteAll.text', { count })}
      cancel={t('deleteAll.cancel')}
      confirm={t('deleteAll.confirm')}
      onCancel={onDone}
      onConfirm={() => void confirm()}
    >
      <AnswerError error={error} />
    </ConfirmDialog>
  );
}
