// Keeps the end of a growing list in view, but only for a reader who is there; who has scrolled up is left
// alone.

import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';

/** The largest distance that still counts as the end, in pixels. */
const NEAR = 48;

interface StickToEnd {
  /** The element that scrolls. */
  scroller: RefObject<HTMLDivElement | null>;
  /** The element that grows in it. */
  content: RefObject<HTMLDivElement | null>;
  isAtEnd: boolean;
  /** Goes to the end, and stays there. */
  toEnd: () => void;
}

/** `isOn`: whether there are messages. A greeting is read from its beginning. */
export function useStickToEnd(isOn: boolean): StickToEnd {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const sticks = useRef(true);
  const follows = useRef(isOn);
  useEffect(() => {
    follows.current = isOn;
  });
  const [isAtEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    const box = scroller.current;
    sticks.current = true;
    setAtEnd(true);
    if (box) box.scrollTop = box.scrollHeight;
  }, []);

  // Scrolling and growth are outside of React; nothing in them asks for a rendering unless the answer
  // changes.
  useEffect(() => {
    const box = scroller.current;
    const inner = content.current;
    if (!box || !inner) return;
    let top = box.scrollTop;
    const onScroll = () => {
      const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      // Only a person scrolls up; that the content has grown moves nothing.
      if (isNear) sticks.current = true;
      else if (box.scrollTop < top) sticks.current = false;
      top = box.scrollTop;
      setAtEnd(sticks.current);
    };
    const observer = new ResizeObserver(() => {
      if (follows.current && sticks.current) box.scrollTop = box.scrollHeight;
    });
    box.addEventListener('scroll', onScroll, { passive: true });
    observer.observe(inner);
    observer.observe(box);
    return () => {
      box.removeEventListener('scroll', onScroll);
      observer.disconnect();
    };
  }, []);

  return { scroller, content, isAtEnd, toEnd };
}
