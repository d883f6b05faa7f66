// The inputs that a person has been shown as a whole. A long input is cut, and nobody should approve parts that were
// never shown to them.

import { createContext, useContext, useState } from 'react';
import { Cell, useCell } from '../../state/cell';
import { isCut } from './cut';

/** The approvals whose input was shown as a whole. */
const seen = new Cell<ReadonlySet<string>>(new Set());

/** The display of something long: whether it is shown as a whole, and a function to show it so. */
export interface Whole {
  isWhole: boolean;
  showAll: () => void;
}

/** All of an input is shown at once, in however many places it is cut. */
export const WholeInput = createContext<Whole | undefined>(undefined);

/** The display of a value: with the input that it is part of, or by itself. */
export function useWhole(): Whole {
  const [isWhole, setWhole] = useState(false);
  return (
    useContext(WholeInput) ?? {
      isWhole,
      showAll: () => {
        setWhole(true);
      },
    }
  );
}

/** The display of the input of an approval. */
export function useSeen(approvalId: string): Whole {
  const isWhole = useCell(seen).has(approvalId);
  return {
    isWhole,
    showAll: () => {
      seen.set(new Set([...seen.value, approvalId]));
    },
  };
}

/** Returns `true` if some input is cut, and was not yet shown as a whole. */
export function useUnseen(approvals: readonly { id: string; input: unknown }[]): boolean {
  const shown = useCell(seen);
  return approvals.some(({ id, input }) => !shown.has(id) && isCut(input));
}
