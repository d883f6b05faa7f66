// The duration of a call: measured here while it runs, and taken from the server once it reports one.

import { useEffect, useState } from 'react';
import { keep, recall } from '../../state/storage';

/** The times that this tab has measured of a call. A reload does not forget them. */
interface Measured {
  /** The time that it had run when it last began to wait, in milliseconds. */
  before: number;
  /** Since when it has been running, in milliseconds since 1970; absent while it waits for a person. */
  since?: number;
}

const keyOf = (toolCallId: string) => `fermata.running.${toolCallId}`;

function measuredOf(toolCallId: string): Measured {
  try {
    const known = JSON.parse(recall(keyOf(toolCallId), 'sessionStorage') ?? '') as Measured;
    if (Number.isFinite(known.before)) return known;
  } catch {
    // It was not measured yet, or by an earlier version of this page.
  }
  return { before: 0 };
}

const durationOf = ({ before, since }: Measured) =>
  before + (since === undefined ? 0 : Math.max(0, Date.now() - since));

function keepMeasured(toolCallId: string, measured: Measured) {
  keep(keyOf(toolCallId), JSON.stringify(measured), 'sessionStorage');
}

/**
 * The milliseconds that a call has run so far, or ran; `undefined` while it waits, or if nothing is known.
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
    const known = measuredOf(toolCallId);
    if (!isRunning) {
      // What follows is the person's time, or nobody's.
      if (known.since !== undefined) keepMeasured(toolCallId, { before: durationOf(known) });
      return;
    }
    const running = { ...known, since: known.since ?? Date.now() };
    keepMeasured(toolCallId, running);
    const measure = () => {
      setMeasured(durationOf(running));
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
