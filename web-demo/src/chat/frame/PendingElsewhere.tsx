// What waits for the person in other chats, each a link to where it waits.

import { Hourglass } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Pending } from 'fermata-chat';
import { useCell } from '../../state/cell';
import { whyWords } from '../calls/asked';
import { saidWords, titleWords } from '../calls/said';
import { chatUrl, showChat } from '../server/chatId';
import { waiting } from '../server/chats';
import { inOneLine } from '../text/visible';
import { isPlainClick } from '../ui/keys';
import { formatWhen } from '../ui/When';

/** The number shown before the person asks for more, so that the chats below stay in sight. */
const SHOWN = 3;

export function PendingElsewhere({ chatId, onShow }: { chatId: string; onShow: () => void }) {
  const { t, i18n } = useTranslation();
  const { t: ofCards } = useTranslation('cards');
  const [isWhole, setWhole] = useState(false);
  const elsewhere = useCell(waiting)
    .filter(({ chat }) => chat.id !== chatId)
    .flatMap(({ chat, pending }) => pending.map((one) => ({ chat, one })));
  if (elsewhere.length === 0) return null;
  // One more line is no longer than the button that would hide it.
  const shown = isWhole || elsewhere.length <= SHOWN + 1 ? elsewhere : elsewhere.slice(0, SHOWN);
  return (
    <section aria-label={t('elsewhere.label')} className="mb-4 border-l-2 border-wait pl-3">
      <h2 className="mb-1 flex items-center gap-1.5 text-xs font-medium text-wait">
        <Hourglass className="size-3.5" aria-hidden="true" />
        {t('elsewhere.label')}
      </h2>
      <ul>
        {shown.map(({ chat, one }) => (
          <li key={one.id}>
            <a
              href={chatUrl(chat.id)}
              className="block rounded-lg px-2 py-1.5 hover:bg-raised"
              onClick={(event) => {
                if (!isPlainClick(event)) return;
                event.preventDefault();
                showChat(chat.id);
                onShow();
              }}
            >
              <Request one={one} />
              <Reason words={whyWords(one, one.tool, ofCards)} />
              <span className="block truncate text-xs text-muted">
                <bdi>{chat.title ?? t('chats.untitled')}</bdi> ·{' '}
                {t('elsewhere.since', { time: formatWhen(one.since, i18n.language) })}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {shown.length < elsewhere.length && (
        <button
          type="button"
          className="mt-1 rounded-lg px-2 py-1.5 text-xs text-muted underline underline-offset-4 hover:text-ink"
          onClick={() => {
            setWhole(true);
          }}
        >
          {t('elsewhere.more', { n: String(elsewhere.length - shown.length) })}
        </button>
      )}
    </section>
  );
}

/** What waits. An MCP server can describe its call as anything, so its words do not stand in place of the tool's name. */
function Request({ one }: { one: Pending }) {
  const { t } = useTranslation();
  const server = one.server === undefined ? undefined : inOneLine(one.server);
  const { t: ofCards } = useTranslation('cards');
  const { description } = one;
  const words = description && saidWords(description, one.tool, one.input, ofCards);
  const said = server === undefined ? words : description && inOneLine(description);
  const title = one.title && titleWords(one.title, one.tool, ofCards);
  const name = <span className="font-mono text-[0.8125rem]">{inOneLine(one.tool)}</span>;
  return (
    <>
      <span dir="auto" className="block truncate text-left text-sm">
        {server === undefined ? (said ?? title ?? name) : name}
        {server !== undefined && one.asks !== 'mcp' && ` · ${server}`}
      </span>
      <span className="block truncate text-xs">
        {server !== undefined && one.asks === 'mcp'
          ? t('elsewhere.serverAsks', { server })
          : t(one.decision?.mayDecide === false ? 'elsewhere.others' : `elsewhere.${one.kind}`)}
      </span>
      {server !== undefined && said !== undefined && (
        <span dir="auto" className="block truncate text-left text-xs">
          {said}
        </span>
      )}
    </>
  );
}

const Reason = ({ words }: { words: string | undefined }) =>
  words !== undefined && (
    <span dir="auto" className="block truncate text-xs">
      {inOneLine(words)}
    </span>
  );
