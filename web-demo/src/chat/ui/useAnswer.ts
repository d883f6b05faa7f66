// One answer on its way: given once, shown while it is under way, and given again only where it was refused.

import { useCallback, useRef, useState } from 'react';
import { FermataError } from 'fermata-chat';

/** The outcome of an answer: `elsewhere` is a call that was settled without it, `no` may be tried again. */
export type Taken = 'yes' | 'no' | 'elsewhere';

export interface Answering {
  /** Which answer is under way, or was taken. */
  which: string | undefined;
  isBusy: boolean;
  /** `true` if nothing can be answered any more: it was taken, here or elsewhere. */
  isOver: boolean;
  error: unknown;
  /** Gives an answer, where none is under way, or was taken. */
  give: (which: string, answer: () => Promise<void>) => Promise<Taken>;
}

interface State {
  which?: string;
  phase: 'open' | 'busy' | 'over';
  error?: unknown;
}

/** Returns `true` if a refusal says that somebody else has answered, or that time has run out. */
export const isAnsweredElsewhere = (error: unknown): error is FermataError =>
  error instanceof FermataError && (error.code === 'already_answered' || error.code === 'gone');

/** Keeps an answer from being given twice. */
export function useAnswer(): Answering {
  const [state, setState] = useState<State>({ phase: 'open' });
  // Two clicks may come before React has drawn the first one.
  const isTaken = useRef(false);
  const give = useCallback(async (which: string, answer: () => Promise<void>) => {
    if (isTaken.current) return 'no';
    isTaken.current = true;
    setState({ which, phase: 'busy' });
    try {
      await answer();
      setState({ which, phase: 'over' });
      return 'yes';
    } catch (error) {
      const isOver = isAnsweredElsewhere(error);
      isTaken.current = isOver;
      setState({ phase: isOver ? 'over' : 'open', error });
      return isOver ? 'elsewhere' : 'no';
    }
  }, []);
  return {
    which: state.which,
    isBusy: state.phase === 'busy',
    isOver: state.phase === 'over',
    error: state.error,
    give,
  };
}
