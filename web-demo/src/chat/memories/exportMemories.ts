// All memories as a file.

import type { Memory } from 'fermata-chat';
import { server } from '../server/server';
import { save } from '../ui/save';

export async function allMemories(): Promise<Memory[]> {
  const all: Memory[] = [];
  for await (const memory of server.memories.all()) all.push(memory);
  return all;
}

/** Has the browser save all memories as JSON. */
export async function exportMemories(): Promise<void> {
  save(
    'fermata-memories.json',
    'application/json',
    JSON.stringify({ memories: await allMemories() }, undefined, 2),
  );
}
