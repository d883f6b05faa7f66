// How long a call has been at work: reckoned here while it runs, and taken from the server once it says so.

import { useEffect, useState } from 'react';
import type { UIMessage } from 'ai';
import { isRecord } from '../tools/tool';

/** How long the server says that a call took, in milliseconds. */
export function durationFrom(message: UIMessage, toolCallId: string): number | undefined {
  const calls = isRecord(message.metadata) ? message.metadata['calls'] : undefined;
  const call = isRecord(calls) && Object.hasOwn(calls, toolCallId) ? calls[toolCallId] : undefined;
  const duration = isRecord(call) ? call['durationMs'] : undefined;
  return typeof duration === 'number' ? duration : undefined;
}

/** Milliseconds that a call has been running, or ran; `undefined` where nothing is known. */
export function useDuration(isRunning: boolean, told: number | undefined): number | undefined {
  const [measured, setMeasured] = useState<number>();
  useEffect(() => {
    if (!isRunning) return;
    const start = performance.now();
    const measure = () => {
      setMeasured(performance.now() - start);
    };
    const timer = setInterval(measure, 1000);
    return () => {
      clearInterval(timer);
      measure();
    };
  }, [isRunning]);
  return told ?? measured;
}
