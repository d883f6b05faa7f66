export const COMPOSER_ID = 'composer';

/** Puts the cursor where one writes; not on a phone, where the keyboard would cover half of the page. */
export function focusComposer() {
  if (matchMedia('(pointer: fine)').matches) document.getElementById(COMPOSER_ID)?.focus();
}
