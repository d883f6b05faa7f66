// What a call would do with the input that a person edits.

import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { InputPreview } from 'fermata-chat';
import type { CardChat } from '../record/toolState';
import { CallDetails } from './CallDetails';

/** The pause in typing after which the server is asked, in milliseconds. */
const PAUSE = 150;

export interface EditPreviewProps {
  chat: CardChat;
  approvalId: string;
  /** The input as JSON. */
  inputText: string;
  /** `true` once the call is answered, so that it waits no longer: then the last preview stays. */
  isAnswered: boolean;
}

/** The effect of the call, or that a rule denies it. Of an input that does not fit, nothing is shown. */
export function EditPreview(props: EditPreviewProps) {
  const { t } = useTranslation('cards');
  const preview = usePreview(props);
  if (preview === undefined) return null;
  return (
    <div className="space-y-2 empty:hidden">
      {preview.decision === 'deny' && <p className="text-sm text-bad">{t('approval.denied')}</p>}
      <CallDetails data={preview.details} title="" />
    </div>
  );
}

function usePreview({ chat, approvalId, inputText, isAnswered }: EditPreviewProps) {
  const [preview, setPreview] = useState<InputPreview>();
  useEffect(() => {
    if (isAnswered) return undefined;
    const asking = new AbortController();
    const show = (next: InputPreview | undefined) => {
      if (!asking.signal.aborted) setPreview(next);
    };
    const timer = setTimeout(() => {
      chat.previewInput(approvalId, inputText, asking.signal).then(show, () => {
        show(undefined);
      });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [chat, approvalId, inputText, isAnswered]);
  return preview;
}
