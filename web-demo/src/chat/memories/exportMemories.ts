// All memories as a file.

import type { Memory } from 'fermata-chat';
import { server } from '../server/server';

export async function allMemories(): Promise<Memory[]> {
  const all: Memory[] = [];
  for await (const memory of server.memories.all()) all.push(memory);
  return all;
}

/** Has the browser save all memories as JSON. */
export async function exportMemories(): Promise<void> {
  const json = JSON.stringify({ memories: await allMemories() }, undefined, 2);
  const url = URL.createObjectURL(new Blob([json], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = 'fermata-memories.json';
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => {
    URL.revokeObjectURL(url);
  });
}
