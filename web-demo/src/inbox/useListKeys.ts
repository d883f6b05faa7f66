// The keys of a list of cards: J and K move from card to card, and Enter toggles the details of a card. A and D are keys of the card.

import { useEffect, type RefObject } from 'react';
import { isBehindDialog, isWriting } from '../chat/ui/keys';

const STEPS: Record<string, 1 | -1> = { j: 1, k: -1 };

export function useListKeys(list: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { key, target } = event;
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
      if (event.defaultPrevented || hasModifier || isWriting(target) || isBehindDialog()) return;
      const cards = [...(list.current?.querySelectorAll<HTMLElement>('[data-call]') ?? [])];
      const step = STEPS[key.toLowerCase()];
      if (step !== undefined) {
        const at = cards.findIndex((card) => card.contains(document.activeElement));
        const next = at < 0 ? cards[0] : cards[at + step];
        next?.focus();
        next?.scrollIntoView({ block: 'nearest' });
        return;
      }
      // On a button, Enter presses it.
      const card = cards.find((card) => card === target);
      if (key === 'Enter') card?.querySelector<HTMLElement>('header button')?.click();
    };
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('keydown', onKey);
    };
  }, [list]);
}
