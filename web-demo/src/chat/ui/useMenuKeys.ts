// The keys of a menu that is open: arrows go from choice to choice, and Escape closes it, as does turning to something else.

import { useEffect, useRef } from 'react';

/** Choices are marked with `data-choice`; `panel` has them and the button that opens the menu. */
export function useMenuKeys(panel: { current: HTMLElement | null }, isOpen: boolean, close: () => void) {
  const latest = useRef(close);
  useEffect(() => {
    latest.current = close;
  });
  useEffect(() => {
    if (!isOpen) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented) return;
      if (event.key === 'Escape') {
        event.preventDefault();
        latest.current();
        panel.current?.querySelector('button')?.focus();
        return;
      }
      const choices = [...(panel.current?.querySelectorAll('[data-choice]') ?? [])];
      const at = choices.findIndex((choice) => choice.contains(document.activeElement));
      const next = placeAfter(event.key, at, choices.length);
      if (next === undefined || !panel.current?.contains(document.activeElement)) return;
      event.preventDefault();
      choices[next]?.querySelector('button')?.focus();
    };
    const onElsewhere = (event: Event) => {
      if (event.target instanceof Node && !panel.current?.contains(event.target)) latest.current();
    };
    document.addEventListener('keydown', onKey);
    document.addEventListener('pointerdown', onElsewhere);
    document.addEventListener('focusin', onElsewhere);
    return () => {
      document.removeEventListener('keydown', onKey);
      document.removeEventListener('pointerdown', onElsewhere);
      document.removeEventListener('focusin', onElsewhere);
    };
  }, [isOpen, panel]);
}

/** The place that a key leads to from one of so many choices. The first follows the last; `at` is -1 before all of them. */
function placeAfter(key: string, at: number, count: number): number | undefined {
  switch (key) {
    case 'ArrowDown':
      return (at + 1) % count;
    case 'ArrowUp':
      return at <= 0 ? count - 1 : at - 1;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return undefined;
  }
}
