// What a person does, one thing at a time: while one is under way no other begins, and what the server refuses is
// shown.

import { useRef, useState } from 'react';

type State = { phase: 'idle' } | { phase: 'busy' } | { phase: 'failed'; error: unknown };

export function useAction() {
  const [state, setState] = useState<State>({ phase: 'idle' });
  // Two clicks may come before React has drawn the first one.
  const isBusy = useRef(false);
  /** Does it, and says whether it was done. */
  const act = async (action: () => Promise<unknown>): Promise<boolean> => {
    if (isBusy.current) return false;
    isBusy.current = true;
    setState({ phase: 'busy' });
    try {
      await action();
      setState({ phase: 'idle' });
      return true;
    } catch (error) {
      setState({ phase: 'failed', error });
      return false;
    } finally {
      isBusy.current = false;
    }
  };
  return { act, isBusy: state.phase === 'busy', error: state.phase === 'failed' ? state.error : undefined };
}
