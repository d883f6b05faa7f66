// Which tools the model may use, as the person chose it: for the next message only, or one tool locked for
// every message of a chat. It becomes the `toolChoice` of a post; a chat without a choice sends none.

import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';

export type ToolChoice = 'none' | 'required' | { type: 'tool'; toolName: string };

export interface Chosen {
  /** For the next message; `undefined` leaves it to the model, or to the lock. */
  next?: ToolChoice;
  /** The tool that every message must use, until it is released. */
  lock?: string;
}

const key = (chatId: string) => `fermata.lock ${chatId}`;
const cells = new Map<string, Cell<Chosen>>();

/** The choice in a chat. */
export function choiceOf(chatId: string): Cell<Chosen> {
  let cell = cells.get(chatId);
  if (cell === undefined) {
    const lock = recall(key(chatId));
    cell = new Cell<Chosen>(lock === undefined ? {} : { lock });
    cells.set(chatId, cell);
  }
  return cell;
}

/** Chooses for the next message; `undefined` takes the choice back. */
export function chooseNext(chatId: string, next: ToolChoice | undefined) {
  const cell = choiceOf(chatId);
  const { lock } = cell.value;
  cell.set({ ...(lock !== undefined && { lock }), ...(next !== undefined && { next }) });
}

/** Locks the chat to a tool; `undefined` releases it. */
export function lockTool(chatId: string, lock: string | undefined) {
  keep(key(chatId), lock);
  choiceOf(chatId).set(lock === undefined ? {} : { lock });
}

/** The fields of this chat's post besides the messages. */
export function choiceBody(chatId: string): { toolChoice?: ToolChoice } {
  const { next, lock } = choiceOf(chatId).value;
  if (next !== undefined) return { toolChoice: next };
  return lock === undefined ? {} : { toolChoice: { type: 'tool', toolName: lock } };
}

/**
 * Called with the body of each post: the choice for the next message is spent by a message of the person, not
 * by a re-post.
 */
export function spendChoice(body: string) {
  if (![...cells.values()].some((cell) => cell.value.next !== undefined)) return;
  const post = JSON.parse(body) as { id?: string; messages?: { role?: string }[] };
  if (post.id !== undefined && post.messages?.at(-1)?.role === 'user') chooseNext(post.id, undefined);
}
