// The meaning of keys and clicks.

import type { KeyboardEvent, MouseEvent } from 'react';

/** The code of every key that an input method takes. */
const COMPOSING = 229;

/**
 * A key that belongs to an input method. Safari ends the composition before it reports the key that ended it, and only this code
 * still tells.
 */
export const isComposing = ({ nativeEvent }: KeyboardEvent) =>
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  nativeEvent.isComposing || nativeEvent.keyCode === COMPOSING;

/** Enter alone sends; with Shift it breaks the line. */
export const isSend = (event: KeyboardEvent) =>
  event.key === 'Enter' && !event.shiftKey && !isComposing(event);

/** Escape leaves what is being written, unless it only drops the word that an input method composes. */
export const isLeave = (event: KeyboardEvent) => event.key === 'Escape' && !isComposing(event);

/** A click that is meant for this page, and not for a new tab. */
export const isPlainClick = (event: MouseEvent) =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
