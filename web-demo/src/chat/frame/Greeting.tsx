// What an empty chat shows: what Fermata is about, and lines to begin with.

import { useTranslation } from 'react-i18next';
import { useAssistants } from 'fermata-chat/react';
import { useCell } from '../../state/cell';
import { assistantOf } from '../server/assistantChoice';
import { wasBegunHere } from '../server/chatId';
import { server, unknownChats } from '../server/server';
import { Sign } from '../ui/Sign';

/** The name of the demo model, which no other model has. */
const DEMO_MODEL = 'demo';

/** Lines to begin with, and what they show. */
interface Suggestions {
  shows?: string;
  lines: readonly string[];
}

export function Greeting({ id, onChoose }: { id: string; onChoose: (line: string) => void }) {
  const { t } = useTranslation();
  const isUnknown = useCell(unknownChats).has(id) && !wasBegunHere(id);
  const assistants = useAssistants(server);
  const { assistant: name = 'default', model } = useCell(assistantOf(id));
  const assistant = assistants.find((one) => one.name === name);
  // The page's own lines are what the demo model understands.
  const isDemo = (model ?? assistant?.models[0]) === DEMO_MODEL;
  // An operator's assistant greets with its own name. The list has the name of one that was given no title.
  const title = assistant === undefined || assistant.title === 'default' ? undefined : assistant.title;
  const ofAssistant = assistant?.suggestions ?? [];
  const groups: readonly Suggestions[] =
    ofAssistant.length > 0
      ? [{ lines: ofAssistant }]
      : isDemo
        ? t('suggestions', { returnObjects: true })
        : [];
  return (
    <section className="pt-[12dvh]">
      {isUnknown && (
        <p role="status" className="mb-8 max-w-prose rounded-card bg-sunken px-4 py-3 text-sm">
          {t('unknownChat')}
        </p>
      )}
      <Sign className="mb-5 size-12 text-accent" />
      <h2 dir="auto" className="mb-3 font-serif text-3xl leading-tight wrap-anywhere">
        {title ?? t('greeting.title')}
      </h2>
      <p className="mb-7 max-w-prose text-muted">
        {t(title === undefined ? 'greeting.text' : 'greeting.write')}
      </p>
      {groups.length > 0 && <p className="mb-3 text-sm text-muted">{t('greeting.try')}</p>}
      <div role="group" aria-label={t('composer.suggestions')} className="flex flex-wrap gap-x-8 gap-y-4">
        {groups.map(({ shows, lines }) => (
          <div key={shows ?? ''}>
            {shows !== undefined && <h3 className="mb-1.5 text-xs text-muted">{shows}</h3>}
            <ul className="flex flex-wrap gap-2">
              {lines.map((line) => (
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
          </div>
        ))}
      </div>
    </section>
  );
}
