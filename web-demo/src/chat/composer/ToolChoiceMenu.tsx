// Which tools the model may use: for the next message, or, with the padlock, for every message until it is
// released; and which of them nobody is asked about any more.

import { Check, Lock, LockOpen, Wrench } from 'lucide-react';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { useCell } from '../../state/cell';
import { Grants } from '../calls/Grants';
import { choiceOf, chooseNext, lockTool, type ToolChoice } from '../server/toolChoice';
import { choosable, loadTools, useTools } from '../server/useTools';
import { IconButton } from '../ui/IconButton';
import { useMenuKeys } from '../ui/useMenuKeys';

const isTool = (choice: ToolChoice | undefined, name: string) =>
  typeof choice === 'object' && choice.toolName === name;

export function ToolChoiceMenu({ chatId }: { chatId: string }) {
  const { t } = useTranslation();
  const { next, lock } = useCell(choiceOf(chatId));
  const [isOpen, setOpen] = useState(false);
  /** `true` if it was opened by a key, and so has the focus. */
  const [takesFocus, setTakesFocus] = useState(false);
  const panel = useRef<HTMLDivElement>(null);
  const id = useId();
  const open = (byKey: boolean) => {
    setTakesFocus(byKey);
    setOpen(true);
    void loadTools();
  };
  useMenuKeys(panel, isOpen, () => {
    setOpen(false);
  });

  return (
    <div className="flex max-w-full min-w-0 items-center sm:relative" ref={panel}>
      <button
        type="button"
        aria-expanded={isOpen}
        aria-controls={id}
        className={
          'inline-flex h-8 min-w-0 cursor-pointer items-center gap-1.5 rounded-lg px-2 text-sm ' +
          'transition-colors hover:bg-sunken pointer-coarse:h-11 pointer-coarse:min-w-11 ' +
          'pointer-coarse:justify-center ' +
          (next !== undefined || lock !== undefined ? 'bg-accent-soft text-ink' : 'text-muted')
        }
        onClick={() => {
          if (isOpen) setOpen(false);
          else open(false);
        }}
        onKeyDown={(event) => {
          if (isOpen || event.key !== 'ArrowDown') return;
          event.preventDefault();
          open(true);
        }}
      >
        {lock === undefined ? (
          <Wrench className="size-4 shrink-0" aria-hidden="true" />
        ) : (
          <Lock className="size-4 shrink-0 text-accent" aria-hidden="true" />
        )}
        <ChoiceName next={next} lock={lock} />
      </button>
      {lock !== undefined && (
        <IconButton
          label={t('tools.release')}
          onClick={() => {
            lockTool(chatId, undefined);
          }}
        >
          <LockOpen />
        </IconButton>
      )}
      {isOpen && (
        <Choices
          id={id}
          chatId={chatId}
          takesFocus={takesFocus}
          onChosen={() => {
            setOpen(false);
          }}
        />
      )}
    </div>
  );
}

function ChoiceName({ next, lock }: { next: ToolChoice | undefined; lock: string | undefined }) {
  const { t } = useTranslation();
  if (next !== undefined) {
    const tool = typeof next === 'object' ? next.toolName : t(`tools.${next}`);
    return <span className="max-w-44 truncate">{t('tools.nextTool', { tool })}</span>;
  }
  return lock === undefined ? (
    <span className="max-sm:sr-only">{t('tools.label')}</span>
  ) : (
    <span className="max-w-56 truncate">{t('tools.lockedTo', { tool: lock })}</span>
  );
}

interface ChoicesProps {
  id: string;
  chatId: string;
  takesFocus: boolean;
  onChosen: () => void;
}

function Choices({ id, chatId, takesFocus, onChosen }: ChoicesProps) {
  const { t } = useTranslation();
  const { next, lock } = useCell(choiceOf(chatId));
  const { state, tools } = useTools();
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (takesFocus) panel.current?.querySelector('button')?.focus();
  }, [takesFocus]);
  const choose = (choice: ToolChoice | undefined) => {
    chooseNext(chatId, choice);
    onChosen();
  };
  return (
    <div
      ref={panel}
      id={id}
      role="group"
      aria-label={t('tools.label')}
      className={
        'absolute inset-x-0 bottom-full z-20 mb-2 max-h-[min(28rem,60dvh)] overflow-y-auto ' +
        'sm:right-auto sm:w-80 rounded-card border border-field bg-raised p-2 text-sm shadow-lg'
      }
    >
      <p className="px-2 pt-1 pb-2 text-xs text-muted">{t('tools.next')}</p>
      <Choice
        name={t('tools.automatic')}
        hint={t('tools.automaticHint')}
        isOn={next === undefined}
        onChoose={() => {
          choose(undefined);
        }}
      />
      <Choice
        name={t('tools.none')}
        isOn={next === 'none'}
        onChoose={() => {
          choose('none');
        }}
      />
      <Choice
        name={t('tools.required')}
        hint={t('tools.requiredHint')}
        isOn={next === 'required'}
        onChoose={() => {
          choose('required');
        }}
      />
      <hr className="my-2 border-line" />
      {choosable(tools?.listed).map((tool) => (
        <Choice
          key={`${tool.from} ${tool.name}`}
          name={<span className="font-mono text-[0.8125rem]">{tool.name}</span>}
          hint={t(`tools.${tool.from}`)}
          isOn={isTool(next, tool.name)}
          onChoose={() => {
            choose({ type: 'tool', toolName: tool.name });
          }}
        >
          <IconButton
            label={lock === tool.name ? t('tools.release') : t('tools.lock', { tool: tool.name })}
            aria-pressed={lock === tool.name}
            onClick={() => {
              lockTool(chatId, lock === tool.name ? undefined : tool.name);
            }}
          >
            {lock === tool.name ? <Lock /> : <LockOpen />}
          </IconButton>
        </Choice>
      ))}
      {state === 'loading' && <p className="px-2 py-1 text-muted">{t('tools.loading')}</p>}
      {state === 'failed' && (
        <p role="alert" className="flex items-center gap-2 px-2 py-1 text-bad">
          <span className="flex-1">{t('tools.failed')}</span>
          <button type="button" className="button" onClick={() => void loadTools()}>
            {t('again')}
          </button>
        </p>
      )}
      <p className="px-2 pt-2 pb-1 text-xs text-muted">{t('tools.lockHint')}</p>
      <Grants chatId={chatId} />
    </div>
  );
}

interface ChoiceProps {
  name: ReactNode;
  hint?: string;
  isOn: boolean;
  onChoose: () => void;
  /** Further actions on it. */
  children?: ReactNode;
}

/** A line of the menu. A hint stands below its name, so that neither takes the other's room. */
const Choice = ({ name, hint, isOn, onChoose, children }: ChoiceProps) => (
  <div data-choice className="flex items-center">
    <button
      type="button"
      aria-pressed={isOn}
      onClick={onChoose}
      className={
        'flex min-h-9 min-w-0 flex-1 cursor-pointer items-center gap-2 rounded-lg px-2 py-1 text-left ' +
        'hover:bg-sunken pointer-coarse:min-h-11'
      }
    >
      <Check className={`size-4 shrink-0 text-accent ${isOn ? '' : 'invisible'}`} aria-hidden="true" />
      <span className="min-w-0 flex-1">
        <span className="block wrap-anywhere">{name}</span>
        {hint !== undefined && <span className="block text-xs text-muted">{hint}</span>}
      </span>
    </button>
    {children}
  </div>
);
