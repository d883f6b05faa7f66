// Asks the person something: with buttons to choose from, a form, or a line to write.
//
// Has no `execute`: the card is the tool, and the part's state alone decides whether it asks, so a reload and
// another tab ask as well.

import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { isRecord } from '../chat/record/isRecord';
import { Button } from '../chat/ui/Button';
import { FIELD } from '../chat/ui/field';
import { isSend } from '../chat/ui/keys';
import { seed, type Schema } from '../chat/values/schemaFields';
import { SecretWarning } from '../chat/values/SecretWarning';
import { Readable } from '../chat/values/ToolValue';
import { ValueEditor } from '../chat/values/ValueEditor';
import type { PageTool, ToolBodyProps } from './tool';

interface Asked {
  question: string;
  fields: Schema | undefined;
  options: string[];
}

export const askQuestion: PageTool = {
  description:
    'Asks the user a question and returns the answer. Give `options` for a choice, `fields` (a ' +
    'JSON Schema of an object) for a form, ' +
    'neither for free text.',
  inputSchema: {
    type: 'object',
    properties: {
      question: { type: 'string', description: 'What the user is asked.' },
      options: { type: 'array', items: { type: 'string' }, description: 'Answers to choose from.' },
      fields: { type: 'object', description: 'JSON Schema of an object with the fields of a form.' },
    },
    required: ['question'],
    additionalProperties: false,
  },
  Body: AskUser,
};

function read(input: unknown): Asked {
  const { question, fields, options } = isRecord(input) ? input : {};
  const given = Array.isArray(options)
    ? options.filter((option) => typeof option === 'string' && option !== '')
    : [];
  return {
    question: typeof question === 'string' ? question : '',
    fields: isRecord(fields) && isRecord(fields['properties']) ? fields : undefined,
    options: [...new Set(given as string[])],
  };
}

function AskUser({ input, stage, output, isBusy, answer, fail }: ToolBodyProps) {
  const { t } = useTranslation('cards');
  const asked = read(input);
  const question = useId();
  const refuse = (
    <Button tone="quiet" disabled={isBusy} onClick={() => void fail('The user did not want to answer.')}>
      {t('ask.refuse')}
    </Button>
  );
  return (
    <div role="group" aria-labelledby={question} className="space-y-3">
      <p id={question} dir="auto" className="text-sm leading-6 font-medium whitespace-pre-wrap wrap-anywhere">
        {asked.question}
      </p>
      {stage === 'waiting' && (asked.fields !== undefined || asked.options.length === 0) && (
        <SecretWarning text={asked.question} schema={asked.fields}>
          {t('secret.goesToModel')}
        </SecretWarning>
      )}
      {stage === 'waiting' && <Answers {...{ asked, isBusy, answer, refuse, question }} />}
      {stage === 'done' && <Answered output={output} />}
    </div>
  );
}

interface AnswersProps extends Pick<ToolBodyProps, 'isBusy' | 'answer'> {
  asked: Asked;
  refuse: React.ReactNode;
  /** The id of the question's element. */
  question: string;
}

function Answers({ asked, isBusy, answer, refuse, question }: AnswersProps) {
  const { t } = useTranslation('cards');
  const { fields, options } = asked;
  if (fields !== undefined) {
    return (
      <ValueEditor
        schema={{ type: 'object', ...fields }}
        value={seed({ type: 'object', ...fields }) ?? {}}
        submit={t('ask.send')}
        isBusy={isBusy}
        isOver={false}
        error={undefined}
        onSubmit={(answers) => void answer({ answers })}
      >
        {refuse}
      </ValueEditor>
    );
  }
  if (options.length > 0) {
    return (
      <div className="flex flex-wrap gap-2">
        {options.map((option) => (
          <Button
            key={option}
            disabled={isBusy}
            onClick={() => void answer({ answer: option })}
            className="text-left"
          >
            {option}
          </Button>
        ))}
        {refuse}
      </div>
    );
  }
  return <FreeText {...{ isBusy, answer, refuse, question }} />;
}

function FreeText({ isBusy, answer, refuse, question }: Omit<AnswersProps, 'asked'>) {
  const { t } = useTranslation('cards');
  const [text, setText] = useState('');
  const send = () => void answer({ answer: text.trim() });
  return (
    <form
      className="space-y-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy && text.trim() !== '') send();
      }}
    >
      <textarea
        dir="auto"
        aria-labelledby={question}
        value={text}
        rows={1}
        onChange={(event) => {
          setText(event.target.value);
        }}
        onKeyDown={(event) => {
          if (!isSend(event)) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
        className={`${FIELD} field-sizing-content max-h-60`}
      />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" tone="primary" isBusy={isBusy} disabled={text.trim() === ''}>
          {t('ask.send')}
        </Button>
        {refuse}
      </div>
    </form>
  );
}

function Answered({ output }: { output: unknown }) {
  const value = isRecord(output) ? (output['answer'] ?? output['answers'] ?? output) : output;
  return (
    <div className="border-l-2 border-good pl-3 text-sm">
      <Readable value={value} />
    </div>
  );
}
