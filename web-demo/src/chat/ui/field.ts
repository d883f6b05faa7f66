/** The classes of a field that is as wide as its form. */
export const FIELD = 'field block w-full';
