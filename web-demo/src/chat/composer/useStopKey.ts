// Escape stops an answer, unless the key belongs to something else: a dialog, a menu, another field. An answer that waits for the person
// is not stopped by it, because that would cancel what waits.

import { useEffect, useRef } from 'react';
import { ownWaiting } from '../runs/notifications';
import { isBehindDialog, isWriting } from '../ui/keys';
import { COMPOSER_ID } from '../ui/focusComposer';

export function useStopKey(isBusy: boolean, stop: () => void) {
  const latest = useRef(stop);
  useEffect(() => {
    latest.current = stop;
  });
  useEffect(() => {
    if (!isBusy) return undefined;
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.isComposing || event.defaultPrevented) return;
      const { target } = event;
      const isElsewhere = isWriting(target) && (target as Element).id !== COMPOSER_ID;
      if (isElsewhere || isBehindDialog() || ownWaiting.value.count > 0) return;
      latest.current();
    };
    // Menus listen at the document, and come first.
    addEventListener('keydown', onKey);
    return () => {
      removeEventListener('keydown', onKey);
    };
  }, [isBusy]);
}
