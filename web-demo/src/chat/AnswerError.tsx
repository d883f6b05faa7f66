// Why an answer was not taken, for eyes and ears.

import { useTranslation } from 'react-i18next';
import { errorWords, isAnsweredElsewhere } from './useAnswer';

/** Shows an error; quietly where somebody else was simply faster. */
export function AnswerError({ error }: { error: unknown }) {
  const { t } = useTranslation('cards');
  if (error === undefined) return null;
  const tone = isAnsweredElsewhere(error) ? 'bg-sunken text-ink' : 'bg-bad-soft text-bad';
  return (
    <p role="alert" className={`rounded-lg px-3 py-2 text-sm wrap-anywhere ${tone}`}>
      {errorWords(error, t)}
    </p>
  );
}
