// Which inputs a person has been shown as a whole. What is long is cut, and nobody should approve what was
// never shown to them.

import { createContext, useContext, useState } from 'react';
import { Cell, useCell } from '../../state/cell';
import { isCut } from './cut';

/** The approvals whose input was shown as a whole. */
const seen = new Cell<ReadonlySet<string>>(new Set());

/** Whether something that is long is shown as a whole, and how to have it shown. */
export interface Whole {
  isWhole: boolean;
  showAll: () => void;
}

/** All of an input is shown at once, in however many places it is cut. */
export const WholeInput = createContext<Whole | undefined>(undefined);

/** Whether a value is shown as a whole: with the input that it is part of, or by itself. */
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

/** Whether the input of an approval is shown as a whole. */
export function useSeen(approvalId: string): Whole {
  const isWhole = useCell(seen).has(approvalId);
  return {
    isWhole,
    showAll: () => {
      seen.set(new Set([...seen.value, approvalId]));
    },
  };
}

/** Whether some input is cut, and was not yet shown as a whole. */
export function useUnseen(approvals: readonly { id: string; input: unknown }[]): boolean {
  const shown = useCell(seen);
  return approvals.some(({ id, input }) => !shown.has(id) && isCut(input));
}
