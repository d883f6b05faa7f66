// The difference of two texts, line by line.

import { diffLines } from 'diff';
import { useTranslation } from 'react-i18next';
import { Name } from '../values/ToolValue';

/** The longest time to find the difference, in milliseconds. */
const PATIENCE = 200;

/** The lines of a text. The last one need not have an end. */
const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

export function Difference({ before, after }: { before: string; after: string }) {
  const { t } = useTranslation('runs');
  const changes = diffLines(before, after, { timeout: PATIENCE }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  return (
    <pre
      // It scrolls, so the keyboard has to reach it.
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      aria-label={t('details.difference')}
      className="max-h-64 overflow-auto rounded-lg bg-sunken py-2 text-xs leading-5"
    >
      {changes.flatMap(({ value, added, removed }, place) => {
        const [sign, look] = added
          ? ['+', 'bg-good-soft text-good']
          : removed
            ? ['−', 'bg-bad-soft text-bad']
            : [' ', ''];
        return linesOf(value).map((line, number) => (
          <span key={`${place}-${number}`} className={`block px-3 whitespace-pre-wrap wrap-anywhere ${look}`}>
            {added && <span className="sr-only">{t('details.added')}: </span>}
            {removed && <span className="sr-only">{t('details.removed')}: </span>}
            <span aria-hidden className="mr-2 inline-block w-2 select-none">
              {sign}
            </span>
            <Name text={line} />
          </span>
        ));
      })}
    </pre>
  );
}
