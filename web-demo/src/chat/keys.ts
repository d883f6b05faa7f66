// Which keys mean what.

import type { KeyboardEvent } from 'react';

/** The code of every key that an input method takes. */
const COMPOSING = 229;

/**
 * Enter alone sends; with Shift it breaks the line, and while an input method composes it belongs to that.
 */
export const isSend = (event: KeyboardEvent) =>
  event.key === 'Enter' &&
  !event.shiftKey &&
  !event.nativeEvent.isComposing &&
  legacyCode(event) !== COMPOSING;

/** Safari ends the composition before the key that ended it is reported, and only this code still tells. */
// eslint-disable-next-line @typescript-eslint/no-deprecated
const legacyCode = (event: KeyboardEvent) => event.nativeEvent.keyCode;
