// Other words for a message that was sent.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { isLeave, isSend } from '../ui/keys';

interface Props {
  text: string;
  /** Called with the new words, or with nothing where they stay. */
  onDone: (text: string | undefined) => void;
}

export function MessageEditor({ text, onDone }: Props) {
  const { t } = useTranslation();
  const [draft, setDraft] = useState(text);
  const send = () => {
    if (draft.trim() !== '') onDone(draft.trim());
  };
  return (
    <form
      className="my-6"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        dir="auto"

        aria-label={t('messages.editLabel')}
        aria-describedby="edit-hint"
        className="field block max-h-80 min-h-24 w-full"
        value={draft}
        // The person has just asked to write here.
        // eslint-disable-next-line jsx-a11y/no-autofocus
        autoFocus
        onChange={(event) => {
          setDraft(event.target.value);
        }}
        onKeyDown={(event) => {
          if (!isLeave(event) && !isSend(event)) return;
          event.preventDefault();
          if (isLeave(event)) onDone(undefined);
          else send();
        }}
      />
      <div className="mt-2 flex flex-wrap items-center justify-end gap-2">
        <p id="edit-hint" className="mr-auto text-sm text-muted">
          {t('messages.editHint')}
        </p>
        <button
          type="button"
          className="button"
          onClick={() => {
            onDone(undefined);
          }}
        >
          {t('messages.cancel')}
        </button>
        <button type="submit" className="button button-accent" disabled={draft.trim() === ''}>
          {t('messages.save')}
        </button>
      </div>
    </form>
  );
}
