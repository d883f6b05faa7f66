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

/** In an empty field for a message, the key that leads to the last one. */
export const isEditLast = (event: KeyboardEvent<HTMLTextAreaElement>) =>
  event.key === 'ArrowUp' && event.currentTarget.value === '' && !event.shiftKey && !isComposing(event);

/** Escape leaves what is being written, unless it only drops the word that an input method composes. */
export const isLeave = (event: KeyboardEvent) => event.key === 'Escape' && !isComposing(event);

/** `true` if a key pressed here writes something. */
export const isWriting = (target: EventTarget | null) =>
  target instanceof Element &&
  target.closest('input:not([type=checkbox]), textarea, select, [contenteditable]') !== null;

/** `true` if a dialog stands in front of the page: the keys of the page are not for it. */
export const isBehindDialog = () => document.querySelector('dialog[open]') !== null;

/** A click that is meant for this page, and not for a new tab. */
export const isPlainClick = (event: MouseEvent) =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
