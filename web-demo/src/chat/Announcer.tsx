// Tells screen readers once that an answer is written. The messages themselves are not a live region, because a text that grows would
// be announced with every word.

import { useState } from 'react';
import { useTranslation } from 'react-i18next';

/** `isGrowing`: whether the newest message is being written. */
export function Announcer({ isGrowing }: { isGrowing: boolean }) {
  const { t } = useTranslation();
  const [wasGrowing, setWasGrowing] = useState(isGrowing);
  const [isWritten, setWritten] = useState(false);
  if (wasGrowing !== isGrowing) {
    setWasGrowing(isGrowing);
    setWritten(!isGrowing);
  }
  return (
    <p role="status" className="sr-only">
      {isWritten && t('messages.written')}
    </p>
  );
}
