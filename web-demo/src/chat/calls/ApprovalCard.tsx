// The question whether a call may run: yes, always, no and why not, or yes with another input.

import { useEffect, useId, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { FermataError, type ApprovalResponse, type AskedCall, type Scope } from 'fermata-chat';
import type { CardChat } from '../record/toolState';
import { isPlanInput, PlanEditor } from '../runs/PlanEditor';
import { invisibleIn, mixedIn } from '../text/visible';
import { AnswerError } from '../ui/AnswerError';
import { Button } from '../ui/Button';
import { FIELD } from '../ui/field';
import { useAnswer } from '../ui/useAnswer';
import type { Schema } from '../values/schemaFields';
import { useSeen, useUnseen, WholeInput } from '../values/seen';
import { Name } from '../values/ToolValue';
import { ValueEditor } from '../values/ValueEditor';
import { AlwaysMenu } from './AlwaysMenu';
import { useAsked, whyWords } from './asked';
import { ChangedInput, useChange } from './ChangedInput';
import { EditPreview } from './EditPreview';

export interface ApprovalQuestionProps {
  chat: CardChat;
  approvalId: string;
  toolCallId: string;
  name: string;
  input: unknown;
  /** The facts about the call in the message. */
  told: Partial<AskedCall> | undefined;
  /** JSON Schema of the input, where it is known. */
  schema: object | undefined;
  /** `true` if the call makes a plan, which has a form of its own. */
  isPlan?: boolean;
  /** Why it is asked, where somebody said. */
  reason?: string | undefined;
  /** `true` if a person edits the input, here or in another tab. */
  isEdited?: boolean;
  /** What the person may do: decide, deny what they have approved, or only look. */
  may?: May;
  /** Called when all of the input is to be shown. */
  onShowAll?: () => void;
}

export type May = 'decide' | 'deny' | 'look';

/** Returns `true` for the refusal of an answer about an old input. The card shows the difference instead. */
const isAboutOldInput = (error: unknown) => error instanceof FermataError && error.code === 'changed';

/** The interval between notes that the person edits an input, in milliseconds. The server trusts a note for three times as long. */
const NOTE_EVERY = 30_000;

type Mode = 'ask' | 'deny' | 'edit';
type Way = 'approve' | 'always' | 'deny' | 'edit';

/** The question, with its answers. */
export function ApprovalQuestion({
  chat,
  approvalId,
  toolCallId,
  name,
  input,
  told,
  schema,
  isPlan = false,
  reason,
  isEdited = false,
  may = 'decide',
  onShowAll,
}: ApprovalQuestionProps) {
  const { t } = useTranslation('cards');
  const [chosenMode, setMode] = useState<Mode>('ask');
  // Going back puts the focus on the button that led away.
  const [cameFrom, setCameFrom] = useState<Mode>('ask');
  const asked = useAsked(chat, { approvalId, toolCallId, reason, told });
  const { exactInput, scopes } = asked;
  const why = whyWords(asked.why, name, t);
  const change = useChange(told?.inputText, may === 'decide');
  // A form closes if its input changes or the person may not decide any more.
  const mode = change === undefined && may !== 'look' ? chosenMode : 'ask';
  const asksNow = mode === 'ask' && change === undefined && may !== 'look';
  useNoteOfEditing(chat, approvalId, mode === 'edit');
  const { showAll } = useSeen(approvalId);
  const isUnseen = useUnseen([{ id: approvalId, input: exactInput ?? input }]);
  const invisible = invisibleIn(input);
  const mixed = mixedIn(input);
  const plan = isPlan && isPlanInput(input) ? input : undefined;
  const answering = useAnswer();
  const { give, isBusy, isOver, error } = answering;
  const respond = (way: Way, response: Omit<ApprovalResponse, 'id'>) =>
    void give(way, () => chat.addToolApprovalResponse({ id: approvalId, ...response }));
  const go = (next: Mode) => {
    setCameFrom(mode);
    setMode(next);
  };
  const back = (
    <Button
      tone="quiet"
      disabled={isBusy}
      onClick={() => {
        go('ask');
      }}
    >
      {t('approval.back')}
    </Button>
  );
  return (
    <div
      // A group and no region: a page with many calls would be all landmarks.
      role="group"
      aria-label={t(may === 'look' ? 'approval.about' : 'approval.label', { name })}
      // The form shows what the card's details would.
      data-editing={mode === 'edit' || undefined}
      className="space-y-3"
    >
      {why !== undefined && (
        <p dir="auto" className="text-sm text-muted wrap-anywhere">
          {t('approval.why')} <Name text={why} />
        </p>
      )}
      {invisible.length > 0 && (
        <p className="text-sm text-bad">
          {t('approval.invisible', { count: invisible.length, codes: [...new Set(invisible)].join(', ') })}
        </p>
      )}
      {mixed.length > 0 && (
        <p className="text-sm text-bad">
          {t('approval.mixed', { count: mixed.length, codes: [...new Set(mixed)].join(', ') })}
        </p>
      )}
      {mode !== 'edit' && isEdited && (
        <p role="status" className="text-sm text-wait">
          {t('approval.editedElsewhere')}
        </p>
      )}
      {mode !== 'edit' && !isAboutOldInput(error) && <AnswerError error={error} />}
      {change !== undefined && (
        <ChangedInput
          {...change}
          onSeen={() => {
            change.onSeen();
            setMode('ask');
          }}
        />
      )}
      {asksNow && may === 'decide' && isUnseen && (
        <p className="flex flex-wrap items-center gap-x-3 text-sm text-wait">
          {t('approval.unseen')}
          <Button
            onClick={() => {
              showAll();
              onShowAll?.();
            }}
          >
            {t('approval.showInput')}
          </Button>
        </p>
      )}
      {asksNow && (
        <Answers
          {...{ name, scopes, cameFrom, answering, respond, go, isUnseen }}
          mayApprove={may === 'decide'}
        />
      )}
      {mode === 'deny' && <Denial {...{ isBusy, isOver, respond }}>{back}</Denial>}
      {mode === 'edit' && plan !== undefined && (
        <PlanEditor
          value={plan}
          submit={t('approval.approveEdited')}
          {...{ isBusy, isOver, error }}
          onSubmit={(edited) => {
            respond('edit', { approved: true, input: edited });
          }}
        >
          {back}
        </PlanEditor>
      )}
      {mode === 'edit' && plan === undefined && (
        <WholeInput value={{ isWhole: true, showAll }}>
          <ValueEditor
            schema={schema as Schema | undefined}
            value={input}
            exactText={exactInput}
            submit={t('approval.approveEdited')}
            {...{ isBusy, isOver, error }}
            onSubmit={(_, inputText) => {
              respond('edit', { approved: true, inputText });
            }}
            preview={(inputText) => (
              <EditPreview {...{ chat, approvalId, inputText }} isAnswered={isBusy || isOver} />
            )}
            takesFocus
          >
            {back}
          </ValueEditor>
        </WholeInput>
      )}
    </div>
  );
}

/**
 * Tells the chat's other pages while the input is edited here. They do without it if the server is away. Of a call that is answered there is
 * nothing more to tell, and a page that is closed falls silent.
 */
function useNoteOfEditing(chat: CardChat, approvalId: string, isEditing: boolean) {
  const wasEditing = useRef(false);
  useEffect(() => {
    const note = () => {
      chat.noteEditing(approvalId, isEditing).catch(() => undefined);
    };
    if (!isEditing) {
      if (wasEditing.current) note();
      wasEditing.current = false;
      return undefined;
    }
    wasEditing.current = true;
    note();
    const timer = setInterval(note, NOTE_EVERY);
    return () => {
      clearInterval(timer);
    };
  }, [chat, approvalId, isEditing]);
}

interface AnswersProps {
  name: string;
  scopes: readonly Scope[];
  cameFrom: Mode;
  answering: ReturnType<typeof useAnswer>;
  respond: (way: Way, response: Omit<ApprovalResponse, 'id'>) => void;
  go: (mode: Mode) => void;
  /** `true` if something of the input was not shown yet. */
  isUnseen: boolean;
  /** `false` if the person has approved already. */
  mayApprove: boolean;
}

function Answers({ name, scopes, cameFrom, answering, respond, go, isUnseen, mayApprove }: AnswersProps) {
  const { t } = useTranslation('cards');
  const { which, isBusy, isOver } = answering;
  const state = (...ways: Way[]) => {
    const isOne = ways.some((way) => way === which);
    return { isBusy: isBusy && isOne, disabled: (isBusy && !isOne) || isOver };
  };
  const approve = state('approve', 'always');
  const focusAfterEdit = useFocusIf(cameFrom === 'edit');
  return (
    <div className="flex flex-wrap gap-2">
      {mayApprove && (
        <>
          <AlwaysMenu
            tool={name}
            scopes={scopes}
            disabled={isUnseen || isBusy || isOver}
            onChoose={(always) => {
              respond('always', { approved: true, always });
            }}
          >
            <Button
              tone="primary"
              isBusy={approve.isBusy}
              disabled={isUnseen || approve.disabled}
              className={scopes.length > 0 ? 'rounded-r-none' : ''}
              data-decision="approve"
              aria-keyshortcuts="A"
              onClick={() => {
                respond('approve', { approved: true });
              }}
            >
              {t('approval.approve')}
            </Button>
          </AlwaysMenu>
          <Button
            {...state('edit')}
            ref={focusAfterEdit}
            onClick={() => {
              go('edit');
            }}
          >
            {t('approval.edit')}
          </Button>
        </>
      )}
      <Button
        tone="danger"
        {...state('deny')}
        ref={useFocusIf(cameFrom === 'deny')}
        data-decision="deny"
        aria-keyshortcuts="D"
        onClick={() => {
          go('deny');
        }}
      >
        {t('approval.deny')}
      </Button>
    </div>
  );
}

/** Focuses an element as it appears. */
function useFocusIf(isWanted: boolean) {
  const isDone = useRef(false);
  return (element: HTMLElement | null) => {
    if (element === null || !isWanted || isDone.current) return;
    isDone.current = true;
    element.focus();
  };
}

interface DenialProps {
  isBusy: boolean;
  isOver: boolean;
  respond: AnswersProps['respond'];
  children: React.ReactNode;
}

function Denial({ isBusy, isOver, respond, children }: DenialProps) {
  const { t } = useTranslation('cards');
  const [words, setWords] = useState('');
  const field = useId();
  const reason = words.trim();
  return (
    <form
      className="space-y-3"
      onSubmit={(event) => {
        event.preventDefault();
        respond('deny', { approved: false, ...(reason !== '' && { reason }) });
      }}
    >
      <div className="space-y-1">
        <label htmlFor={field} className="text-sm font-medium">
          {t('approval.reason')}
        </label>
        <input
          dir="auto"
          id={field}
          ref={useFocusIf(true)}
          value={words}
          onChange={(event) => {
            setWords(event.target.value);
          }}
          placeholder={t('approval.reasonHint')}
          className={FIELD}
        />
      </div>
      <div className="flex flex-wrap gap-2">
        <Button type="submit" tone="danger" isBusy={isBusy} disabled={isOver}>
          {t('approval.deny')}
        </Button>
        {children}
      </div>
    </form>
  );
}
