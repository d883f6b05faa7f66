// The version of the AI SDK in this page. Newer ones know chunks and fields that older ones refuse, and only the
// client can tell.

import ai from 'ai/package.json' with { type: 'json' };

export const AI_VERSION: string = ai.version;

/** Returns `true` if a version knows `reset-step`: 7.0.70 and later. The server takes a bare major version for its usual release. */
export function knowsResetStep(version: string | number): boolean {
  const [major = 0, minor = 0, patch = Infinity] = String(version).split('.').map(Number);
  return major > 7 || (major === 7 && (minor > 0 || patch >= 70));
}
