// The keys of a card that has the focus and waits for a decision: A approves, and D asks why not. They press the buttons of the card, so
// they do what these would do now.

import { useEffect, type RefObject } from 'react';
import { isWriting } from '../ui/keys';

const DECISIONS: Record<string, 'approve' | 'deny'> = { a: 'approve', d: 'deny' };

export function useDecisionKeys(card: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const { current } = card;
    const onKey = (event: KeyboardEvent) => {
      const decision = DECISIONS[event.key.toLowerCase()];
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
      if (decision === undefined || hasModifier || event.repeat || isWriting(event.target)) return;
      const button = current?.querySelector<HTMLButtonElement>(`[data-decision='${decision}']`);
      if (!button) return;
      // The field that asks why not gets the focus, and must not get the letter.
      event.preventDefault();
      button.click();
    };
    current?.addEventListener('keydown', onKey);
    return () => {
      current?.removeEventListener('keydown', onKey);
    };
  }, [card]);
}
