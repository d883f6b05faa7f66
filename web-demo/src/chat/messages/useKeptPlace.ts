// Where a reader is in a list to whose beginning something is added.

import { useLayoutEffect, useRef, type RefObject } from 'react';

/**
 * Returns a function that notes the reader's place before earlier messages are asked for. The reader returns to it when
 * they are shown.
 *
 * @param beginning changes when they are
 */
export function useKeptPlace(scroller: RefObject<HTMLDivElement | null>, beginning: number): () => void {
  const fromEnd = useRef<number>(undefined);
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box && fromEnd.current !== undefined) box.scrollTo({ top: box.scrollHeight - fromEnd.current });
    fromEnd.current = undefined;
  }, [beginning, scroller]);
  return () => {
    const box = scroller.current;
    if (box) fromEnd.current = box.scrollHeight - box.scrollTop;
  };
}
