// Server-sent events, read from one connection. Knows nothing of what they say.

export interface ServerEvent {
  id: string | undefined;
  data: string | undefined;
}

/**
 * Reads the events of a connection until it ends, breaks, falls silent for `silence` milliseconds, or is aborted. None of these is an error.
 */
export async function* eventsIn(
  body: ReadableStream<Uint8Array>,
  silence: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const cancel = () => void reader.cancel().catch(() => undefined);
  if (signal.aborted) cancel();
  signal.addEventListener('abort', cancel);
  let rest = '';
  try {
    for (;;) {
      const piece = await inTime(reader.read(), silence).catch(() => undefined);
      if (piece === undefined || piece.done) return;
      const events = (rest + decoder.decode(piece.value, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events)
        yield { id: /^id: ?(.*)$/m.exec(event)?.[1], data: /^data: ?(.*)$/m.exec(event)?.[1] };
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}

/** Returns the result of a promise, or `undefined` if that takes too long. */
async function inTime<T>(promise: Promise<T>, longest: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, longest, undefined);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
