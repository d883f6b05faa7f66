// A question that is put to the person: by the model, by an MCP server while a tool of it runs, or by Fermata about a call that has
// failed. It is a form, which is sent, declined or cancelled.
//
// The card says whose the words are and who gets the answer, and warns if they ask for a secret.

import { Check, MessageCircleQuestion, X, type LucideIcon } from 'lucide-react';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import type { ElicitationAnswer, FermataChat } from 'fermata-chat';
import { isRecord } from '../record/isRecord';
import { ERROR_TYPES } from '../record/toldOfCall';
import { inOneLine } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { useAnswer } from '../ui/useAnswer';
import { seed, type Schema } from '../values/schemaFields';
import { SecretWarning } from '../values/SecretWarning';
import { LongText } from '../values/ToolValue';
import { ValueEditor } from '../values/ValueEditor';

export type ElicitationState = 'pending' | 'accepted' | 'declined' | 'cancelled';

/** The data of a `data-elicitation` part. */
export interface Elicitation {
  elicitationId: string;
  toolCallId: string;
  tool: string;
  /** The author of the question. */
  asks: 'assistant' | 'tool' | 'mcp';
  /** The MCP server that asks. */
  server?: string;
  /** The failure, if Fermata asks how to go on after it. */
  failure?: { errorType: string; errorText: string };
  message: string;
  requestedSchema: Schema;
  state: ElicitationState;
}

export interface ElicitationCardProps {
  part: { type: string; id?: string; data: unknown };
  chat: FermataChat;
}

const STATES: readonly string[] = ['pending', 'accepted', 'declined', 'cancelled'];

function read(data: unknown): Elicitation | undefined {
  if (!isRecord(data)) return undefined;
  const { elicitationId, toolCallId, tool, asks, server, code, errorType, errorText } = data;
  const { message, requestedSchema, state } = data;
  if (typeof elicitationId !== 'string' || typeof state !== 'string' || !STATES.includes(state))
    return undefined;
  return {
    elicitationId,
    toolCallId: typeof toolCallId === 'string' ? toolCallId : '',
    tool: typeof tool === 'string' ? tool : '',
    asks: asks === 'assistant' || asks === 'mcp' ? asks : 'tool',
    ...(typeof server === 'string' && { server }),
    ...(code === 'call_failed' && {
      failure: { errorType: String(errorType), errorText: String(errorText) },
    }),
    message: typeof message === 'string' ? message : '',
    requestedSchema: isRecord(requestedSchema) ? requestedSchema : {},
    state: state as ElicitationState,
  };
}

const MARKS: Record<ElicitationState, { Icon: LucideIcon; look: string }> = {
  pending: { Icon: MessageCircleQuestion, look: 'bg-wait-soft text-wait' },
  accepted: { Icon: Check, look: 'bg-good-soft text-good' },
  declined: { Icon: X, look: 'bg-sunken text-muted' },
  cancelled: { Icon: X, look: 'bg-sunken text-muted' },
};

/** The card of a question. */
export const ElicitationCard = memo(Card, (before, after) => {
  // Parts are new objects with every delta; of a question only its state changes.
  const one = read(before.part.data);
  const other = read(after.part.data);
  return (
    before.chat === after.chat && one?.elicitationId === other?.elicitationId && one?.state === other?.state
  );
});

function Card({ part, chat }: ElicitationCardProps) {
  const { t } = useTranslation('cards');
  const asked = read(part.data);
  if (asked === undefined) return null;
  const { Icon, look } = MARKS[asked.state];
  const isPending = asked.state === 'pending';
  return (
    <article
      aria-label={t('elicitation.label')}
      data-elicitation={asked.state}
      className="space-y-3 rounded-card border border-field bg-raised px-3 py-3"
    >
      <div className="flex gap-3">
        <span aria-hidden className={`grid size-8 shrink-0 place-items-center rounded-full ${look}`}>
          <Icon className="size-4" />
        </span>
        <div className="min-w-0 flex-1">
          <h2 className="text-sm leading-6 font-medium wrap-anywhere">{askerWords(asked, t)}</h2>
          <Message asked={asked} />
          <p
            role="status"
            className={`text-xs leading-5 ${isPending ? 'font-medium text-wait' : 'text-muted'}`}
          >
            {t(`elicitation.${asked.state}`)}
          </p>
        </div>
      </div>
      {isPending && (
        <SecretWarning text={asked.message} schema={asked.requestedSchema}>
          {asked.server === undefined
            ? t('secret.goesToModel')
            : t('elicitation.goesTo', { server: inOneLine(asked.server) })}
        </SecretWarning>
      )}
      {isPending && <Question key={asked.elicitationId} asked={asked} chat={chat} />}
    </article>
  );
}

type Translate = ReturnType<typeof useTranslation<'cards'>>['t'];

/** The author of the question, in words. */
function askerWords({ asks, server, tool, failure }: Elicitation, t: Translate): string {
  if (failure !== undefined) return t('elicitation.callFailed', { tool: inOneLine(tool) });
  switch (asks) {
    case 'assistant':
      return t('elicitation.assistantAsks');
    case 'tool':
      return t('elicitation.toolAsks', { tool: inOneLine(tool) });
    case 'mcp':
      return t('elicitation.serverAsks', { server: inOneLine(server ?? '') });
    default:
      return asks satisfies never;
  }
}

/** The question, unless the form says the same: the labels of its fields are the questions of the model. */
function Message({ asked }: { asked: Elicitation }) {
  const { t } = useTranslation('cards');
  if (asked.asks === 'assistant' && asked.state === 'pending' && asksForFields(asked.requestedSchema))
    return null;
  if (asked.failure === undefined)
    return (
      <blockquote className="my-1 border-l-2 border-line pl-3">
        <LongText text={asked.message} />
      </blockquote>
    );
  const { errorText, errorType } = asked.failure;
  const known = ERROR_TYPES.find((type) => type === errorType);
  return (
    <>
      {known !== undefined && <p className="text-sm text-muted">{t(`trouble.${known}`)}</p>}
      <blockquote className="my-1 border-l-2 border-line pl-3">
        <LongText text={errorText} />
      </blockquote>
    </>
  );
}

/** The form, with the words of the page where Fermata has written its own. */
function formOf({ failure, requestedSchema }: Elicitation, t: Translate): Schema {
  if (failure === undefined) return requestedSchema;
  const choices = (['retry', 'go_on', 'stop'] as const).map((choice) => ({
    const: choice,
    title: t(`elicitation.choice.${choice}`),
  }));
  const choice = { title: t('elicitation.whatNow'), oneOf: choices, default: 'go_on' };
  return { ...requestedSchema, properties: { choice } };
}

function Question({ asked, chat }: { asked: Elicitation; chat: FermataChat }) {
  const { t } = useTranslation('cards');
  const { give, which, isBusy, isOver, error } = useAnswer();
  const { elicitationId } = asked;
  const requestedSchema = formOf(asked, t);
  const answer = (answer: Omit<ElicitationAnswer, 'elicitationId'>) =>
    void give(answer.action, () => chat.answerElicitation({ elicitationId, ...answer }));
  const others = (['decline', 'cancel'] as const).map((action) => (
    <Button
      key={action}
      tone={action === 'decline' ? 'plain' : 'quiet'}
      isBusy={isBusy && which === action}
      disabled={(isBusy && which !== action) || isOver}
      onClick={() => {
        answer({ action });
      }}
    >
      {t(`elicitation.${action}`)}
    </Button>
  ));
  if (!asksForFields(requestedSchema)) {
    return (
      <div className="space-y-3">
        <AnswerError error={error} />
        <div className="flex flex-wrap gap-2">
          <Button
            tone="primary"
            isBusy={isBusy && which === 'accept'}
            disabled={(isBusy && which !== 'accept') || isOver}
            onClick={() => {
              answer({ action: 'accept', content: {} });
            }}
          >
            {t('elicitation.accept')}
          </Button>
          {others}
        </div>
      </div>
    );
  }
  return (
    <ValueEditor
      schema={requestedSchema}
      value={seed(requestedSchema) ?? {}}
      submit={t('elicitation.send')}
      isBusy={isBusy && which === 'accept'}
      isOver={isOver || (isBusy && which !== 'accept')}
      error={error}
      onSubmit={(content) => {
        answer({ action: 'accept', content: isRecord(content) ? content : {} });
      }}
    >
      {others}
    </ValueEditor>
  );
}

/** A question may be no more than a yes or no. */
const asksForFields = ({ properties }: Schema): boolean =>
  isRecord(properties) && Object.keys(properties).length > 0;
