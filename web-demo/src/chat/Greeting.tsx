// What an empty chat shows: what Fermata is about, and lines to begin with.

import { useTranslation } from 'react-i18next';
import { Sign } from './Sign';

export function Greeting({ onChoose }: { onChoose: (line: string) => void }) {
  const { t } = useTranslation();
  return (
    <section className="pt-[12dvh]">
      <Sign className="mb-5 size-12 text-accent" />
      <h2 className="mb-3 font-serif text-3xl leading-tight">{t('greeting.title')}</h2>
      <p className="mb-7 max-w-prose text-muted">{t('greeting.text')}</p>
      <ul aria-label={t('composer.suggestions')} className="flex flex-wrap gap-2">
        {t('suggestions', { returnObjects: true }).map((line) => (
          <li key={line}>
            <button
              type="button"
              className="button rounded-full"
              onClick={() => {
                onChoose(line);
              }}
            >
              {line}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
