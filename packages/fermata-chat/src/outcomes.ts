// Outcomes of the page's tools, in a form that can be sent: a value that JSON can write, or a short error text.

export type Outcome = { output: unknown } | { state: 'output-error'; errorText: string };

/** An outcome that can be sent. `error` is set if it is not the one that the tool had, and the page should hear of that. */
export interface Sendable {
  outcome: Outcome;
  error?: Error;
}

/** The length of the longest error text, in UTF-16 units. A model learns nothing more from a longer one. */
const LONGEST_ERROR = 2000;

/** Returns an output as the server will have it, or the error that it becomes. */
export function sendableOutput(output: unknown): Sendable {
  try {
    const text = written(output ?? null);
    if (text === undefined) return undeliverable(`a ${typeof output} cannot be written as JSON`, output);
    return { outcome: { output: JSON.parse(text) as unknown } };
  } catch (error) {
    return undeliverable(`the output cannot be written as JSON: ${firstLine(messageOf(error))}`, error);
  }
}

/** Returns what a tool has thrown as the error of its call. */
export function sendableError(thrown: unknown): Sendable {
  const text = messageOf(thrown);
  const errorText = cut(text);
  const outcome: Outcome = { state: 'output-error', errorText };
  if (errorText === text) return { outcome };
  return { outcome, error: thrown instanceof Error ? thrown : new Error(errorText, { cause: thrown }) };
}

/** A function or a symbol has no text. TypeScript does not know that. */
const written = (value: unknown): string | undefined => JSON.stringify(value);

function undeliverable(why: string, cause: unknown): Sendable {
  const errorText = cut(`The outcome of this tool could not be sent: ${why}`);
  return { outcome: { state: 'output-error', errorText }, error: new Error(errorText, { cause }) };
}

/** The words of an error. Anything can be thrown, even something that cannot become a text. */
function messageOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return String(thrown);
    return thrown.message === '' ? thrown.name : thrown.message;
  } catch {
    return 'The tool has failed.';
  }
}

const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

function cut(text: string): string {
  if (text.length <= LONGEST_ERROR) return text;
  // A character of two halves stays whole.
  const end = /[\ud800-\udbff]/.test(text.charAt(LONGEST_ERROR - 2)) ? LONGEST_ERROR - 2 : LONGEST_ERROR - 1;
  return `${text.slice(0, end)}…`;
}
