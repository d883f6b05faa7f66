// Who answers: one of the server's assistants, with one of its models. It is shown if there is more than one to choose.

import { useTranslation } from 'react-i18next';
import { useAssistants, useChosen, type FermataChat } from 'fermata-chat/react';
import { useCell } from '../../state/cell';
import { assistantOf } from '../server/assistantChoice';
import { server } from '../server/server';

export function AssistantPicker({ chatId, chat }: { chatId: string; chat: Pick<FermataChat, 'chosen'> }) {
  const { t } = useTranslation('context');
  const assistants = useAssistants(server);
  const ofChat = useChosen(chat);
  const picked = useCell(assistantOf(chatId));
  // The names of a model and of an assistant are JSON here, because either may have any letter in it.
  const choices = assistants.flatMap(({ name, title, models }) =>
    (models.length > 1 ? models : [undefined]).map((model) => ({
      value: JSON.stringify([name, model ?? models[0]]),
      words: model === undefined ? title : `${title} · ${model}`,
    })),
  );
  if (choices.length < 2) return null;
  const { assistant: name, model } = picked.assistant === undefined ? ofChat : picked;
  const assistant = assistants.find((one) => one.name === name) ?? assistants[0];
  const shown = assistant?.models.find((one) => one === model) ?? assistant?.models[0];
  const value = JSON.stringify([assistant?.name, shown]);
  return (
    // It has what the others leave of the line, and a line of its own if that is too little to read a name.
    <span className="min-w-24 flex-1 basis-0">
      <select
        aria-label={t('assistant')}
        title={choices.find((choice) => choice.value === value)?.words}
        value={value}
        className={
          'field-sizing-content h-8 max-w-[min(100%,16rem)] cursor-pointer truncate rounded-lg ' +
          'bg-transparent pr-6 pl-1 align-middle text-sm text-muted hover:bg-sunken pointer-coarse:h-11'
        }
        onChange={(event) => {
          const [assistant, model] = JSON.parse(event.target.value) as [string, string];
          assistantOf(chatId).set({ assistant, model });
        }}
      >
        {choices.map(({ value, words }) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </span>
  );
}
