// Edits one JSON value: as a form made from its schema, or as JSON. Both show the same value, and going from
// one to the other loses nothing: what one cannot say yet keeps its place until it can.

import { useCallback, useId, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError, isReadExactly } from 'fermata-chat';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { isAnsweredElsewhere } from '../ui/useAnswer';
import { toJson } from './cut';
import { RawJson } from './RawJson';
import { readJson } from './SchemaControls';
import { fieldOf, isSame, type Schema } from './schemaFields';
import { idOf, SchemaForm } from './SchemaForm';
import { issueOfServer, issuesOf, issueWords, type Issue } from './schemaIssues';

export interface ValueEditorProps {
  /** Without one there is JSON alone. */
  schema: Schema | undefined;
  value: unknown;
  /** The value as JSON, if JavaScript reads that as another: then the text itself is edited. */
  exactText?: string | undefined;
  submit: string;
  isBusy: boolean;
  isOver: boolean;
  /** Why the last answer was refused. */
  error: unknown;
  /** Gives the value away, and its JSON as it was edited. */
  onSubmit: (value: unknown, text: string) => void;
  /** What is shown above the buttons for the value as JSON, while that fits. */
  preview?: (text: string) => ReactNode;
  /** More buttons, beside the first. */
  children?: ReactNode;
  /** `true` to focus the first field at once. */
  takesFocus?: boolean;
}

/** Edits a value, and gives it away once it fits. */
export function ValueEditor({
  schema,
  value: first,
  exactText,
  submit,
  isBusy,
  isOver,
  error,
  onSubmit,
  preview,
  children,
  takesFocus = false,
}: ValueEditorProps) {
  const { t } = useTranslation('cards');
  const id = useId();
  const draft = useDraft(schema, first, exactText);
  const [wasTried, setTried] = useState(false);
  // A refusal of the server is about the value that was sent; later changes need a new check.
  const [sent, setSent] = useState<unknown>();
  const refusals =
    error instanceof FermataError && error.status === 422 && isSame(sent, draft.value)
      ? error.errors.map(issueOfServer)
      : [];
  const faults = schema !== undefined && !draft.isBroken ? issuesOf(schema, draft.value) : [];
  const local = wasTried ? faults : [];
  const issues = [...local, ...refusals];
  const send = () => {
    setTried(true);
    if (draft.isBroken) return;
    if (faults.length > 0) {
      focusOn(id, faults[0]);
      return;
    }
    setSent(draft.value);
    onSubmit(draft.value, jsonOf(draft));
  };
  return (
    <form
      noValidate
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy && !isOver) send();
      }}
    >
      {draft.canBeForm && <Views isForm={draft.isForm} isStuck={draft.isBroken} onSwitch={draft.show} />}
      <div
        ref={(element) => {
          if (element !== null && takesFocus) focusOnce(element);
        }}
      >
        {draft.isForm && schema !== undefined ? (
          <SchemaForm
            key={draft.round}
            {...{ id, schema, issues }}
            value={draft.value}
            onChange={draft.setValue}
            onBroken={draft.noteBroken}
          />
        ) : (
          <RawJson
            id={id}
            text={draft.text}
            onChange={draft.setText}
            isBroken={draft.isBroken}
            issues={issues}
          />
        )}
      </div>
      {!draft.isBroken && faults.length === 0 && preview?.(jsonOf(draft))}
      {wasTried && (local.length > 0 || draft.isBroken) && (
        <Summary {...{ local, isBroken: draft.isBroken, isForm: draft.isForm, t }} />
      )}
      {(isAnsweredElsewhere(error) || sent === undefined || isSame(sent, draft.value)) && (
        <AnswerError error={error} />
      )}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" tone="primary" isBusy={isBusy} disabled={isOver}>
          {submit}
        </Button>
        {children}
      </div>
    </form>
  );
}

// === the value while it is edited ===

interface Draft {
  value: unknown;
  /** The value as it stands in the JSON view. */
  text: string;
  isForm: boolean;
  canBeForm: boolean;
  /** `true` if something that was typed is no value yet. */
  isBroken: boolean;
  /** Grows whenever the form starts over. */
  round: number;
  setValue: (value: unknown) => void;
  setText: (text: string) => void;
  noteBroken: (pointer: string, isBroken: boolean) => void;
  show: (view: 'form' | 'json') => void;
}

const jsonOf = ({ isForm, value, text }: Draft) => (isForm ? JSON.stringify(value) : text);

const isFormFor = (schema: Schema | undefined, value: unknown) =>
  schema !== undefined && fieldOf(schema, value, schema).control.kind !== 'json';

function useDraft(schema: Schema | undefined, first: unknown, exactText: string | undefined): Draft {
  const [value, setValue] = useState(first);
  const [text, setText] = useState(() => exactText ?? toJson(first ?? {}));
  const [isForm, setForm] = useState(() => exactText === undefined && isFormFor(schema, first));
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set());
  const [round, setRound] = useState(0);
  const isBroken = isForm ? broken.size > 0 : readJson(text) === undefined;
  const noteBroken = useCallback((pointer: string, isBroken: boolean) => {
    setBroken((before) => {
      if (before.has(pointer) === isBroken) return before;
      return new Set(isBroken ? [...before, pointer] : [...before].filter((other) => other !== pointer));
    });
  }, []);
  return {
    value,
    text,
    isForm,
    // A form has values and no text, so it would change what JavaScript cannot read.
    canBeForm: isFormFor(schema, value) && (isForm || isBroken || isReadExactly(text)),
    isBroken,
    round,
    setValue,
    setText: (next) => {
      setText(next);
      const read = readJson(next);
      if (read !== undefined) setValue(read.value);
    },
    noteBroken,
    show: (view) => {
      if (isBroken) return;
      // How somebody laid their JSON out is kept as long as it says the same.
      if (view === 'json' && !isSame(readJson(text)?.value, value)) setText(toJson(value ?? {}));
      if (view === 'form') setRound(round + 1);
      setForm(view === 'form');
    },
  };
}

// === parts ===

function Views({
  isForm,
  isStuck,
  onSwitch,
}: {
  isForm: boolean;
  isStuck: boolean;
  onSwitch: (view: 'form' | 'json') => void;
}) {
  const { t } = useTranslation('cards');
  const view = (name: 'form' | 'json', isShown: boolean) => (
    <button
      type="button"
      aria-pressed={isShown}
      disabled={isStuck && !isShown}
      title={isStuck && !isShown ? t('form.stuck') : undefined}
      onClick={() => {
        if (!isShown) onSwitch(name);
      }}
      className={
        'min-h-10 rounded-md px-3 text-sm text-muted focus-visible:outline-2 ' +
        'focus-visible:outline-accent disabled:opacity-50 aria-pressed:bg-raised ' +
        'aria-pressed:font-medium aria-pressed:text-ink aria-pressed:shadow-sm sm:min-h-8'
      }
    >
      {t(`form.${name}`)}
    </button>
  );
  return (
    <div role="group" aria-label={t('form.views')} className="inline-flex gap-0.5 rounded-lg bg-sunken p-0.5">
      {view('form', isForm)}
      {view('json', !isForm)}
    </div>
  );
}

interface SummaryProps {
  local: Issue[];
  isBroken: boolean;
  isForm: boolean;
  t: ReturnType<typeof useTranslation<'cards'>>['t'];
}

function Summary({ local, isBroken, isForm, t }: SummaryProps) {
  // In the form most issues stand at their fields; of the value as a whole none does.
  const whole = local.filter(({ pointer }) => pointer === '');
  const words = isBroken ? t('form.noJson') : t('form.issues', { count: local.length });
  return (
    <div role="alert" className="rounded-lg bg-bad-soft px-3 py-2 text-sm text-bad">
      <p>{words}</p>
      {isForm && whole.map((issue, at) => <p key={at}>{issueWords(issue, t)}</p>)}
    </div>
  );
}

/** Goes to a field with an issue. */
function focusOn(id: string, issue: Issue | undefined) {
  if (issue !== undefined) document.getElementById(idOf(id, issue.pointer))?.focus();
}

const focused = new WeakSet<HTMLElement>();

function focusOnce(element: HTMLElement) {
  if (focused.has(element)) return;
  focused.add(element);
  element.querySelector<HTMLElement>('input, textarea, select, button')?.focus();
}
