// What an empty chat shows: what Fermata is about, and lines to begin with.

import { useTranslation } from 'react-i18next';
import { useAssistants } from 'fermata-chat/react';
import { useCell } from './cell';
import { wasBegunHere } from './chatId';
import { assistantOf } from './context/choice';
import { server, unknownChats } from './server';
import { Sign } from './Sign';

export function Greeting({ id, onChoose }: { id: string; onChoose: (line: string) => void }) {
  const { t } = useTranslation();
  const isUnknown = useCell(unknownChats).has(id) && !wasBegunHere(id);
  const assistants = useAssistants(server);
  const { assistant: name = 'default' } = useCell(assistantOf(id));
  const ofAssistant = assistants.find((one) => one.name === name)?.suggestions ?? [];
  const suggestions = ofAssistant.length > 0 ? ofAssistant : t('suggestions', { returnObjects: true });
  return (
    <section className="pt-[12dvh]">
      {isUnknown && (
        <p role="status" className="mb-8 max-w-prose rounded-card bg-sunken px-4 py-3 text-sm">
          {t('unknownChat')}
        </p>
      )}
      <Sign className="mb-5 size-12 text-accent" />
      <h2 className="mb-3 font-serif text-3xl leading-tight">{t('greeting.title')}</h2>
      <p className="mb-7 max-w-prose text-muted">{t('greeting.text')}</p>
      <ul aria-label={t('composer.suggestions')} className="flex flex-wrap gap-2">
        {suggestions.map((line) => (
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
