// Which assistant and which of its models answer from the next message on, as the person chose it here. The choice goes
// with the next post, and the chat keeps it from then on.

import type { Chosen } from 'fermata-chat';
import { Cell } from '../../state/cell';

const cells = new Map<string, Cell<Chosen>>();

/** The choice in a chat. */
export function assistantOf(chatId: string): Cell<Chosen> {
  let cell = cells.get(chatId);
  if (cell === undefined) {
    cell = new Cell<Chosen>({});
    cells.set(chatId, cell);
  }
  return cell;
}

/** Called with the body of each post that was accepted: the chat has the choice now. */
export function forgetAssistant(body: string) {
  if (![...cells.values()].some((cell) => cell.value.assistant !== undefined)) return;
  const { id, fermata } = JSON.parse(body) as { id?: string; fermata?: Chosen };
  const cell = id === undefined ? undefined : cells.get(id);
  const isStill = cell?.value.assistant === fermata?.assistant && cell?.value.model === fermata?.model;
  if (isStill) cell?.set({});
}
