// Tells screen readers once that an answer is finished. The messages themselves are not a live region, because a text that grows would
// be announced with every word.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';

/** `isUnderWay`: whether the newest message is being written, or waits for somebody. */
export function Announcer({ isUnderWay }: { isUnderWay: boolean }) {
  const { t } = useTranslation();
  const [wasUnderWay, setWasUnderWay] = useState(isUnderWay);
  const [isWritten, setWritten] = useState(false);
  if (wasUnderWay !== isUnderWay) {
    setWasUnderWay(isUnderWay);
    setWritten(!isUnderWay);
  }
  return (
    <p role="status" className="sr-only">
      {isWritten && t('messages.written')}
    </p>
  );
}
