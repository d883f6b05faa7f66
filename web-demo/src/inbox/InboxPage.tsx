// The page of the inbox: its head, its two lists, and a title with the number of waiting calls.

import { ArrowLeft, Settings as Gear, X } from 'lucide-react';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { isWaitingFor, useInbox, type UseInbox } from 'fermata-chat/react';
import { Languages, SEGMENT, Themes } from '../chat/frame/Looks';
import { TokenDialog } from '../chat/frame/TokenDialog';
import { chatUrl, isChatId } from '../chat/server/chatId';
import { useMe } from '../chat/server/me';
import { server } from '../chat/server/server';
import { inOneLine } from '../chat/text/visible';
import { Dialog } from '../chat/ui/Dialog';
import { IconButton } from '../chat/ui/IconButton';
import { Decided } from './Decided';
import { PushSwitch } from './PushSwitch';
import { Waiting } from './Waiting';

type List = 'waiting' | 'decided';

export function InboxPage() {
  const { t } = useTranslation('inbox');
  const inbox = useInbox(server.approvals);
  const me = useMe(inbox.status);
  const [shown, setShown] = useState<List>('waiting');
  const [tool, setTool] = useState<string>();
  const waiting = inbox.approvals.filter(
    (approval) => isWaitingFor(me, approval) && !inbox.gone.has(approval.id),
  );
  const count = waiting.length;
  const [linked] = useState(() => inUrl('approval'));
  const { show } = inbox;
  useEffect(() => {
    if (linked !== null) show(linked);
  }, [linked, show]);
  useEffect(() => {
    document.title = (count > 0 ? `(${count}) ` : '') + t('title');
  }, [count, t]);
  return (
    <div className="min-h-dvh bg-paper text-ink">
      <header className="sticky top-0 z-20 border-b border-line bg-paper">
        <div className="column flex min-h-14 items-center gap-2">
          <a
            href={backUrl()}
            aria-label={t('back')}
            title={t('back')}
            className="-ml-2 inline-flex size-8 items-center justify-center rounded-lg text-muted hover:bg-sunken hover:text-ink pointer-coarse:size-11"
          >
            <ArrowLeft className="size-4" aria-hidden="true" />
          </a>
          <h1 className="flex-1 font-serif text-xl">{t('title')}</h1>
          <InboxSettings />
        </div>
      </header>
      <main className="column space-y-4 py-4">
        <div className="flex flex-wrap items-center gap-x-6 gap-y-2">
          <div role="group" aria-label={t('show')} className="segments mr-auto">
            {(['waiting', 'decided'] as const).map((list) => (
              <button
                key={list}
                type="button"
                aria-pressed={list === shown}
                className={SEGMENT}
                onClick={() => {
                  setShown(list);
                }}
              >
                {list === 'waiting' && count > 0 ? t('waitingCount', { n: count }) : t(list)}
              </button>
            ))}
          </div>
          <ToolFilter {...{ inbox, tool }} onChoose={setTool} />
          <PushSwitch status={inbox.status} />
        </div>
        <p role="status" className="sr-only">
          {count > 0 && t('count', { count })}
        </p>
        {shown === 'waiting' ? (
          <Waiting {...{ inbox, waiting, me, tool, linked }} />
        ) : (
          <Decided key={tool} {...{ me, tool }} />
        )}
        <Keys />
      </main>
      <TokenDialog />
    </div>
  );
}

const inUrl = (name: 'approval' | 'chat') => new URLSearchParams(location.search).get(name);

/** The chat that the person came from, if the URL names it. */
function backUrl() {
  const chat = inUrl('chat');
  return isChatId(chat) ? chatUrl(chat, '/') : '/';
}

/** A filter by tool, if the inbox has calls of several. */
function ToolFilter({
  inbox,
  tool,
  onChoose,
}: {
  inbox: UseInbox;
  tool: string | undefined;
  onChoose: (tool: string | undefined) => void;
}) {
  const { t } = useTranslation('inbox');
  const counts = new Map<string, number>(tool === undefined ? [] : [[tool, 0]]);
  for (const { tool } of inbox.approvals) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  if (counts.size < 2 && tool === undefined) return null;
  return (
    <label className="flex min-w-0 items-center gap-2 text-sm">
      {t('tool')}
      <select
        className="field min-w-0"
        value={tool ?? ''}
        onChange={({ target }) => {
          onChoose(target.value === '' ? undefined : target.value);
        }}
      >
        <option value="">{t('allTools')}</option>
        {[...counts].map(([name, n]) => (
          <option key={name} value={name}>
            {t('withCount', { tool: inOneLine(name), n })}
          </option>
        ))}
      </select>
    </label>
  );
}

const KEYS = { move: ['J', 'K'], approve: ['A'], deny: ['D'], open: ['Enter'] } as const;

/** The keys, for people with a keyboard. */
function Keys() {
  const { t } = useTranslation('inbox');
  return (
    <dl
      aria-label={t('keys.label')}
      className="hidden flex-wrap gap-x-5 gap-y-1 pt-4 text-xs text-muted sm:flex pointer-coarse:hidden"
    >
      {(Object.keys(KEYS) as (keyof typeof KEYS)[]).map((what) => (
        <div key={what} className="flex items-center gap-1.5">
          <dt className="flex gap-1">
            {KEYS[what].map((key) => (
              <kbd key={key} className="rounded-md border border-field px-1.5 font-sans leading-5">
                {key}
              </kbd>
            ))}
          </dt>
          <dd>{t(`keys.${what}`)}</dd>
        </div>
      ))}
    </dl>
  );
}

function InboxSettings() {
  const { t } = useTranslation('inbox');
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
  };
  return (
    <>
      <IconButton
        label={t('settings')}
        aria-haspopup="dialog"
        onClick={() => {
          setOpen(true);
        }}
      >
        <Gear />
      </IconButton>
      {isOpen && (
        <Dialog
          title={t('settings')}
          onClose={close}
          beside={
            <IconButton label={t('closeSettings')} onClick={close}>
              <X />
            </IconButton>
          }
        >
          <div className="divide-y divide-line">
            <Languages />
            <Themes />
          </div>
        </Dialog>
      )}
    </>
  );
}
