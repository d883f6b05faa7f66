// How long a call has run: measured here while it runs, and taken from the server once it says so.

import { useEffect, useState } from 'react';
import { keep, recall } from './storage';

/** When this tab first saw the call running, in milliseconds since 1970. A reload does not forget it. */
function runningSince(toolCallId: string): number {
  const key = `fermata.running.${toolCallId}`;
  const known = Number(recall(key, 'sessionStorage') ?? NaN);
  if (Number.isFinite(known)) return known;
  keep(key, String(Date.now()), 'sessionStorage');
  return Date.now();
}

/**
 * Milliseconds for which a call has been running, or ran; `undefined` while it waits, or if nothing is known.
 *
 * @param isRunning whether the call runs now
 * @param isOver whether nothing more will come of it
 * @param told what the server says
 */
export function useDuration(
  toolCallId: string,
  isRunning: boolean,
  isOver: boolean,
  told: number | undefined,
): number | undefined {
  const [measured, setMeasured] = useState<number>();
  useEffect(() => {
    if (!isRunning) return;
    const since = runningSince(toolCallId);
    const measure = () => {
      setMeasured(Math.max(0, Date.now() - since));
    };
    measure();
    const timer = setInterval(measure, 1000);
    return () => {
      clearInterval(timer);
      measure();
    };
  }, [toolCallId, isRunning]);
  if (told !== undefined) return told;
  return isRunning || isOver ? measured : undefined;
}
