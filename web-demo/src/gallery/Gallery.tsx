// Every card in every state, one section for each item of the registry.

import { useEffect, useRef, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { isToolUIPart } from 'ai';
import { ElicitationCard } from '../chat/calls/ElicitationCard';
import { Gate } from '../chat/calls/Gate';
import { ToolCard } from '../chat/calls/ToolCard';
import { PlanList } from '../chat/runs/PlanList';
import { Button } from '../chat/ui/Button';
import { CopyButton } from '../chat/ui/CopyButton';
import { useAnswer } from '../chat/ui/useAnswer';
import { ValueEditor } from '../chat/values/ValueEditor';
import { chooseLanguage, language } from '../i18n/language';
import { chooseTheme } from '../i18n/theme';
import { useCell } from '../state/cell';
import { chatWith } from './chat';
import * as states from './states';
import type { Calls, Form, Press } from './states';
import type { ItemKey, StateKey } from './texts';

const chat = chatWith(true);
const progressiveChat = chatWith(false);

export function Gallery() {
  const { t } = useTranslation('gallery');
  useEffect(goToAnchor, []);
  return (
    <main className="column space-y-12 py-8">
      <header className="space-y-3">
        <h1 className="font-serif text-3xl">{t('title')}</h1>
        <p className="text-sm text-muted">{t('intro')}</p>
        <Choices />
      </header>
      <Item name="approval-card">
        {states.approvals.map((state) => (
          <CallsState key={state.what} {...state} />
        ))}
      </Item>
      <Item name="schema-form">
        {states.forms.map((form) => (
          <State key={form.what} {...form}>
            <FormState {...form} />
          </State>
        ))}
      </Item>
      <Item name="gate">
        {states.gates.map((state) => (
          <CallsState key={state.what} {...state} chat={state.isClosed ? chat : progressiveChat}>
            <Gate message={state.message} chat={state.isClosed ? chat : progressiveChat} />
          </CallsState>
        ))}
      </Item>
      <Item name="plan">
        {states.proposals.map((state) => (
          <CallsState key={state.what} {...state} />
        ))}
        {states.plans.map(({ what, plan, isGrowing }) => (
          <State key={what} what={what}>
            <PlanList data={plan} chat={chat} isGrowing={isGrowing} isContinued={false} />
          </State>
        ))}
      </Item>
      <Item name="question">
        {states.questions.map(({ what, part }) => (
          <State key={what} what={what}>
            <ElicitationCard part={part} chat={chat} />
          </State>
        ))}
      </Item>
      <Item name="browser-tools">
        {states.browserTools.map((state) => (
          <CallsState key={state.what} {...state} />
        ))}
      </Item>
    </main>
  );
}

/** Goes where the URL leads. The cards that are pressed as they appear take the focus first, once React has drawn them. */
function goToAnchor() {
  setTimeout(() => {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    const item = document.getElementById(location.hash.slice(1));
    if (item === null) scrollTo(0, 0);
    else item.scrollIntoView();
  });
}

function Choices() {
  const { t } = useTranslation('gallery');
  const spoken = useCell(language);
  return (
    <div className="flex flex-wrap gap-x-6 gap-y-2">
      <div role="group" aria-label={t('theme')} className="flex gap-1">
        {(['light', 'dark'] as const).map((theme) => (
          <Button
            key={theme}
            onClick={() => {
              chooseTheme(theme);
            }}
          >
            {t(theme)}
          </Button>
        ))}
      </div>
      <div role="group" aria-label={t('language')} className="flex gap-1">
        {(['en', 'zh'] as const).map((one) => (
          <Button
            key={one}
            lang={one}
            aria-pressed={one === spoken}
            onClick={() => {
              chooseLanguage(one);
            }}
          >
            {one === 'en' ? 'English' : '中文'}
          </Button>
        ))}
      </div>
    </div>
  );
}

/** The states of an item, below the command that adds it to a project. The tools of this page are not in the registry. */
function Item({ name, children }: { name: ItemKey; children: ReactNode }) {
  const { t } = useTranslation('gallery');
  const command = `npx shadcn add ${location.origin}/r/${name}.json`;
  return (
    <section id={name} aria-labelledby={`${name}-title`} className="scroll-mt-4 space-y-6">
      <h2 id={`${name}-title`} className="font-serif text-2xl">
        <a href={`#${name}`}>{t(`item.${name}`)}</a>
      </h2>
      {name !== 'browser-tools' && (
        <div className="space-y-1">
          <p className="text-xs text-muted">{t('add')}</p>
          <div className="flex items-center gap-2 rounded-lg bg-sunken pl-3">
            <code className="min-w-0 flex-1 py-2 font-mono text-xs wrap-anywhere">{command}</code>
            <CopyButton label={t('copy', { name })} text={() => command} />
          </div>
        </div>
      )}
      {children}
    </section>
  );
}

const PRESSED: Record<Press, (part: HTMLElement, edit: string) => HTMLElement | null | undefined> = {
  edit: (part, edit) => [...part.querySelectorAll('button')].find(({ textContent }) => textContent === edit),
  deny: (part) => part.querySelector<HTMLElement>('[data-decision=deny]'),
  always: (part) => part.querySelector<HTMLElement>('[data-decision=approve] + button'),
  submit: (part) => part.querySelector<HTMLElement>('[type=submit]'),
};

/** A state, with its name. Its card may be pressed as it appears. */
function State({ what, press, children }: { what: StateKey; press?: Press; children: ReactNode }) {
  const { t } = useTranslation(['gallery', 'cards']);
  const part = useRef<HTMLDivElement>(null);
  const edit = t('cards:approval.edit');
  const isPressed = useRef(false);
  useEffect(() => {
    if (press === undefined || part.current === null || isPressed.current) return;
    isPressed.current = true;
    PRESSED[press](part.current, edit)?.click();
  }, [press, edit]);
  return (
    <div ref={part} data-what={what} className="space-y-2">
      <p className="text-xs font-medium text-muted">{t(`gallery:state.${what}`)}</p>
      {children}
    </div>
  );
}

function CallsState({
  what,
  message,
  press,
  chat: own = chat,
  children,
}: Calls & { chat?: typeof chat; children?: ReactNode }) {
  return (
    <State what={what} {...(press !== undefined && { press })}>
      {message.parts.filter(isToolUIPart).map((part) => (
        <ToolCard key={part.toolCallId} {...{ part, message }} chat={own} tools={states.tools} />
      ))}
      {children}
    </State>
  );
}

function FormState({ schema, value }: Form) {
  const { t } = useTranslation('cards');
  const { give, isBusy, isOver, error } = useAnswer();
  return (
    <div className="rounded-card border border-field bg-raised p-4">
      <ValueEditor
        {...{ schema, value, isBusy, isOver, error }}
        submit={t('elicitation.send')}
        onSubmit={() =>
          void give('send', () => chat.addToolOutput({ tool: '', toolCallId: '', output: value }))
        }
      />
    </div>
  );
}
