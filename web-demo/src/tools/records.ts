// The records that this browser keeps.
//
// Knows nothing of cards or chats. Invariant: a call has one record at most, no matter what is pressed how often
// and in however many tabs, because the call's id is the record's place.

import { isRecord } from '../chat/record/isRecord';

/** The record that was written for a call. */
export interface StoredRecord {
  /** The id of the call that wrote it. */
  id: string;
  collection: string;
  title: string;
  data?: unknown;
  /** When, as ISO 8601. */
  at: string;
}

const PREFIX = 'fermata-demo record ';
const CHANGE = 'fermata-demo records';

/**
 * Writes the record of a call, or gives the one that it wrote before. Throws where the browser keeps nothing.
 */
export function write(
  id: string,
  record: Pick<StoredRecord, 'collection' | 'title' | 'data'>,
): { record: StoredRecord; isNew: boolean } {
  const known = recordOf(id);
  if (known !== undefined) return { record: known, isNew: false };
  const { collection, title, data } = record;
  const written: StoredRecord = {
    id,
    collection,
    title,
    ...(data !== undefined && { data }),
    at: new Date().toISOString(),
  };
  localStorage.setItem(PREFIX + id, JSON.stringify(written));
  tell();
  return { record: written, isNew: true };
}

/** The record of a call. */
export function recordOf(id: string): StoredRecord | undefined {
  try {
    return read(localStorage.getItem(PREFIX + id));
  } catch {
    // A browser may forbid a page to keep anything.
    return undefined;
  }
}

/** All of them, the latest first. */
export function records(): StoredRecord[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const all = keys.map((key) => read(localStorage.getItem(key))).filter((record) => record !== undefined);
    return all.sort((one, other) => other.at.localeCompare(one.at));
  } catch {
    return [];
  }
}

/** Takes a record away. */
export function forget(id: string): void {
  localStorage.removeItem(PREFIX + id);
  tell();
}

/** Hears of changes in all tabs. Returns a function that ends that. */
export function onChange(hear: () => void): () => void {
  // Only the other tabs receive `storage`.
  window.addEventListener('storage', hear);
  window.addEventListener(CHANGE, hear);
  return () => {
    window.removeEventListener('storage', hear);
    window.removeEventListener(CHANGE, hear);
  };
}

const tell = () => window.dispatchEvent(new Event(CHANGE));

function read(text: string | null): StoredRecord | undefined {
  if (text === null) return undefined;
  try {
    const value = JSON.parse(text) as unknown;
    const isStored =
      isRecord(value) && ['id', 'collection', 'title', 'at'].every((name) => typeof value[name] === 'string');
    return isStored ? (value as unknown as StoredRecord) : undefined;
  } catch {
    return undefined;
  }
}
