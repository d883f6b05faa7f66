// Why an answer was not taken, for eyes and ears.

import { useErrorWords } from './errorWords';
import { isAnsweredElsewhere } from './useAnswer';

/** Shows an error; quietly where somebody else was simply faster. */
export function AnswerError({ error }: { error: unknown }) {
  const words = useErrorWords();
  if (error === undefined) return null;
  const tone = isAnsweredElsewhere(error) ? 'bg-sunken text-ink' : 'bg-bad-soft text-bad';
  return (
    <p role="alert" className={`rounded-lg px-3 py-2 text-sm wrap-anywhere ${tone}`}>
      {words(error)}
    </p>
  );
}
