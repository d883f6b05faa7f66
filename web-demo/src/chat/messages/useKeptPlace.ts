// Where a reader is in a list to whose beginning something is added.

import { useLayoutEffect, useRef, type RefObject } from 'react';

/**
 * What notes the reader's place, to be called before earlier messages are asked for; it is gone back to when
 * they are there.
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
