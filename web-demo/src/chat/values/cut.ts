// The limits beyond which a value is cut, until somebody asks for all of it.

import { isLong } from '../text/visible';

export const MAX_FIELDS = 24;
/** Fields inside fields inside fields read no better than JSON. */
export const MAX_DEPTH = 3;

/** A value as JSON, even if it is none: a tool of the page may give anything. */
export function toJson(value: unknown): string {
  try {
    return value === undefined ? 'undefined' : JSON.stringify(value, null, 2);
  } catch {
    return String(value);
  }
}

/** Returns whether something of a value is left out until somebody asks for all of it. */
export function isCut(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return isLong(value);
  if (typeof value !== 'object' || value === null) return false;
  if (depth >= MAX_DEPTH) return isLong(toJson(value));
  const fields = Object.values(value);
  return fields.length > MAX_FIELDS || fields.some((field) => isCut(field, depth + 1));
}
