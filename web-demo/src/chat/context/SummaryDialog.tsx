// The summary that stands for the earlier messages of a chat: read, corrected, and written again.

import { X } from 'lucide-react';
import { useId, useState } from 'react';
import { createPortal } from 'react-dom';
import { useTranslation } from 'react-i18next';
import {
  FermataError,
  useSummary,
  type ChatSummary,
  type FermataChat,
  type Summary,
} from 'fermata-chat/react';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { FIELD } from '../ui/field';
import { IconButton } from '../ui/IconButton';
import { useAction } from '../ui/useAction';

/** A chat, and how many messages it has. */
export type SummarizedChat = FermataChat & { readonly messages: readonly unknown[] };

/** A summary ends before a message of the person, so fewer messages have none. The server may keep more of them as they are. */
const FEWEST_MESSAGES = 3;

export function SummaryDialog({ chat, onClose }: { chat: SummarizedChat; onClose: () => void }) {
  const { t } = useTranslation('context');
  const summary = useSummary(chat);
  const isLong = chat.messages.length - (summary?.messages ?? 0) >= FEWEST_MESSAGES;
  // A form within the form where one writes is not HTML.
  return createPortal(
    <Dialog
      title={t('title')}
      size={summary === undefined ? 'question' : 'page'}
      onClose={onClose}
      beside={
        <IconButton label={t('close')} onClick={onClose}>
          <X />
        </IconButton>
      }
    >
      <div
        className="space-y-6"
        // In React the dialog is still within that form.
        onSubmit={(event) => {
          event.stopPropagation();
        }}
      >
        {isLong && <CompactForm chat={chat} />}
        {summary === undefined ? (
          <p className="text-sm text-muted">{t('none')}</p>
        ) : (
          <SummaryForm key={summary.createdAt} chat={chat} summary={summary} />
        )}
      </div>
    </Dialog>,
    document.body,
  );
}

function CompactForm({ chat }: { chat: FermataChat }) {
  const { t } = useTranslation('context');
  const [instructions, setInstructions] = useState('');
  const { act, isBusy, error } = useAction();
  const compact = async () => {
    const words = instructions.trim();
    if (await act(() => chat.compact(words === '' ? undefined : words))) setInstructions('');
  };
  return (
    <form
      className="space-y-3 rounded-card bg-sunken p-3"
      onSubmit={(event) => {
        event.preventDefault();
        void compact();
      }}
    >
      <label className="block text-sm">
        {t('instructions')}
        <input
          dir="auto"
          value={instructions}
          autoComplete="off"
          className={`${FIELD} mt-1`}
          onChange={(event) => {
            setInstructions(event.target.value);
          }}
        />
      </label>
      <CompactError error={error} />
      <Button type="submit" isBusy={isBusy}>
        {t('compact')}
      </Button>
    </form>
  );
}

/** Why no summary was written. */
function CompactError({ error }: { error: unknown }) {
  const { t } = useTranslation('context');
  const reason = reasonOf(error);
  if (reason === undefined) return <AnswerError error={error} />;
  return (
    <p role="alert" className="rounded-lg bg-wait-soft px-3 py-2 text-sm text-wait">
      {t(`refused.${reason}`)}
    </p>
  );
}

function reasonOf(error: unknown) {
  if (!(error instanceof FermataError)) return undefined;
  if (error.code === 'nothing_to_compact' || error.code === 'run_open') return error.code;
  return error.status === 503 ? 'unavailable' : undefined;
}

const LISTS = ['decisions', 'done', 'todo', 'facts', 'openQuestions', 'toolsUsed'] as const;

/** A text in one line. */
const lineOf = (text: string) => text.replace(/\s+/g, ' ').trim();

const entityLine = (name: string, value: string) => lineOf(`${name}: ${value}`);

/** The fields as text, with one entry on each line. */
function textsOf({ goal, entities, ...lists }: Summary): Record<keyof Summary, string> {
  const text = (list: readonly string[]) => list.map(lineOf).join('\n');
  return {
    goal,
    decisions: text(lists.decisions),
    done: text(lists.done),
    todo: text(lists.todo),
    facts: text(lists.facts),
    openQuestions: text(lists.openQuestions),
    toolsUsed: text(lists.toolsUsed),
    entities: Object.entries(entities)
      .map(([name, value]) => entityLine(name, value))
      .join('\n'),
  };
}

const linesOf = (text: string) =>
  text
    .split('\n')
    .map(lineOf)
    .filter((line) => line !== '');

/** The names and values that a text says. A line that was not touched stays for what it stood for. */
function entitiesOf(summary: Summary, text: string): [string, string][] {
  const known = new Map(Object.entries(summary.entities).map((entry) => [entityLine(...entry), entry]));
  return linesOf(text).map((line) => {
    const [name = '', ...value] = line.split(/[:：]/);
    return known.get(line) ?? [name.trim(), value.join(':').trim()];
  });
}

/** Names that have several values. The summary could keep only one of them. */
function repeatedNames(entities: readonly [string, string][]): string[] {
  const names = entities.map(([name]) => name);
  return [...new Set(names.filter((name, place) => names.indexOf(name) < place))];
}

/** The summary with other words in a field. A line that was not touched stays for what it stood for. */
function withText(summary: Summary, field: keyof Summary, text: string): Summary {
  if (field === 'goal') return { ...summary, goal: text.trim() };
  if (field === 'entities') return { ...summary, entities: Object.fromEntries(entitiesOf(summary, text)) };
  const known = new Map(summary[field].map((entry) => [lineOf(entry), entry]));
  return { ...summary, [field]: linesOf(text).map((line) => known.get(line) ?? line) };
}

function SummaryForm({ chat, summary: { summary, messages } }: { chat: FermataChat; summary: ChatSummary }) {
  const { t } = useTranslation('context');
  const before = textsOf(summary);
  const [texts, setTexts] = useState(before);
  const { act, isBusy, error } = useAction();
  const changed = (Object.keys(texts) as (keyof Summary)[]).filter((field) => texts[field] !== before[field]);
  const repeated = changed.includes('entities') ? repeatedNames(entitiesOf(summary, texts.entities)) : [];
  const why = useId();
  const save = () => {
    let corrected = summary;
    for (const field of changed) corrected = withText(corrected, field, texts[field]);
    void act(() => chat.correctSummary(corrected));
  };
  const area = (field: keyof Summary, rows: number) => (
    <label key={field} className="block text-sm">
      {t(`fields.${field}`)}
      <textarea
        dir="auto"
        rows={rows}
        value={texts[field]}
        className={`${FIELD} mt-1`}
        {...(field === 'entities' && { 'aria-invalid': repeated.length > 0, 'aria-describedby': why })}
        onChange={(event) => {
          setTexts({ ...texts, [field]: event.target.value });
        }}
      />
    </label>
  );
  return (
    <form
      className="space-y-3"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <p className="text-sm text-muted">{t('explained', { count: messages })}</p>
      {area('goal', 2)}
      {LISTS.map((field) => area(field, 3))}
      {area('entities', 3)}
      <p id={why} role="status" className="text-sm text-bad empty:sr-only">
        {repeated.length > 0 && t('repeated', { names: repeated.join(', ') })}
      </p>
      <AnswerError error={error} />
      <Button
        type="submit"
        tone="primary"
        isBusy={isBusy}
        disabled={changed.length === 0 || repeated.length > 0}
      >
        {t('save')}
      </Button>
    </form>
  );
}
