// Asks before all memories are deleted.

import { useTranslation } from 'react-i18next';
import { AnswerError } from '../ui/AnswerError';
import { Dialog } from '../ui/Dialog';
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
    <Dialog title={t('deleteAll.title')} onClose={onDone}>
      <p>{t('deleteAll.text', { count })}</p>
      <AnswerError error={error} />
      <div className="mt-5 flex justify-end gap-2">
        <button type="button" className="button" onClick={onDone}>
          {t('deleteAll.cancel')}
        </button>
        <button type="button" className="button button-bad" onClick={() => void confirm()}>
          {t('deleteAll.confirm')}
        </button>
      </div>
    </Dialog>
  );
}
