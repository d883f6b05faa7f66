// What the pages know of memory: whether the server has it, whether the list is shown, and what was undone here.

import { memoryOf } from 'fermata-chat';
import { Cell } from '../../state/cell';
import { keep, recall } from '../../state/storage';
import { isRecord } from '../record/isRecord';
import { toolNameOf, type Message, type ToolPart } from '../record/message';
import type { OwnTools } from '../record/toolState';
import { server } from '../server/server';
import type { ToolList } from '../server/useTools';

/** `true` if there is anything to be shown: a server may have no memory, or no assistant that uses it. */
export const hasMemory = new Cell(false);

/** `true` if the list of memories is shown. */
export const isListShown = new Cell(false);

/** Finds out whether the server has memories, or an assistant that may save some. */
export async function findMemory(): Promise<void> {
  try {
    const { memories } = await server.memories.list({ limit: 1 });
    if (memories.length > 0 || (await isRemembering())) hasMemory.set(true);
  } catch {
    // The page works without it. A server of an older version has no such endpoint.
  }
}

async function isRemembering(): Promise<boolean> {
  for (const { name } of await server.assistants()) {
    const path = `/api/tools?assistant=${encodeURIComponent(name)}`;
    const { tools, own } = await server.request<ToolList>(path);
    if (tools.some((tool) => tool.name === own?.remember)) return true;
  }
  return false;
}

/** The changes that a run can make to a memory. */
export const DEEDS = ['saved', 'changed', 'forgotten'] as const;
export type Deed = (typeof DEEDS)[number];

/**
 * Returns `true` if the lines about memory show the effect of a call, so that its card need not repeat it. The output of the tools
 * that change memories is the memory under the name of the deed, or of another outcome.
 */
export function isToldAsMemory(part: ToolPart, message: Message, own: OwnTools | undefined): boolean {
  const name = toolNameOf(part);
  if (name !== own?.remember && name !== own?.forget) return false;
  if (part.state !== 'output-available' || !isRecord(part.output)) return false;
  const { output } = part;
  const use = memoryOf(message);
  return DEEDS.some((deed) => {
    const memory = output[deed];
    return isRecord(memory) && use?.[deed].some(({ id }) => id === memory['id']) === true;
  });
}

// === what was undone ===

const UNDONE = 'fermata.undone';
const MOST_UNDONE = 200;

/**
 * A change stays in its message when it is undone, and the server would then undo
 * the change before it. So the browser keeps which ones were undone.
 */
export const undone = new Cell<readonly string[]>(recall(UNDONE)?.split('\n') ?? []);

export function noteUndone(key: string) {
  undone.set([...undone.value, key].slice(-MOST_UNDONE));
  keep(UNDONE, undone.value.join('\n'));
}
