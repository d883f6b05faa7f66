// Who answers: one of the server's assistants, with one of its models. There is a choice where there is more than one.

import { useTranslation } from 'react-i18next';
import { useAssistants, useChosen, type Assistant, type FermataChat } from 'fermata-chat/react';
import { useCell } from '../../state/cell';
import { assistantOf } from '../server/assistantChoice';
import { server } from '../server/server';

/** An assistant that nobody has given a title is called by its model. */
const wordsOf = ({ name, title, models }: Assistant, model = models[0] ?? '') => {
  if (title === name && name === 'default') return model;
  return models.length > 1 ? `${title} · ${model}` : title;
};

export function AssistantPicker({ chatId, chat }: { chatId: string; chat: Pick<FermataChat, 'chosen'> }) {
  const { t } = useTranslation('context');
  const assistants = useAssistants(server);
  const ofChat = useChosen(chat);
  const picked = useCell(assistantOf(chatId));
  // The names of a model and of an assistant are JSON here, because either may have any letter in it.
  const choices = assistants.flatMap((assistant) =>
    assistant.models.map((model) => ({
      value: JSON.stringify([assistant.name, model]),
      words: wordsOf(assistant, model),
    })),
  );
  const { assistant: name, model } = picked.assistant === undefined ? ofChat : picked;
  const assistant = assistants.find((one) => one.name === name) ?? assistants[0];
  const shown = assistant?.models.find((one) => one === model) ?? assistant?.models[0];
  const value = JSON.stringify([assistant?.name, shown]);
  const words = choices.find((choice) => choice.value === value)?.words;
  if (choices.length < 2) return words !== undefined && <span className="truncate">{words}</span>;
  return (
    <select
      aria-label={t('assistant')}
      title={words}
      value={value}
      className={
        '-ml-1 field-sizing-content h-6 max-w-64 min-w-16 cursor-pointer truncate rounded-md bg-transparent ' +
        'pr-5 pl-1 hover:bg-sunken pointer-coarse:-my-2.5 pointer-coarse:h-11'
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
  );
}
