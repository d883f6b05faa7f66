// The line above the composer: what is going on, and what a message would do meanwhile.

import { useTranslation } from 'react-i18next';
import { useRunStatus, useUnsent, type FermataChat } from 'fermata-chat/react';
import { useEffect } from 'react';
import { pageRuns } from '../../tools';
import type { Message } from '../record/message';
import { useTools } from '../server/useTools';
import { inOneLine } from '../text/visible';
import { confirmWord, goingOn, waitsForYou, type Going } from './going';
import { noteWaiting } from './notifications';
import { useCallChanges } from './useCallChanges';

interface Props {
  chatId: string;
  chat: FermataChat;
  messages: readonly Message[];
  isBusy: boolean;
}

export function RunLine({ chatId, chat, messages, isBusy }: Props) {
  const { t, i18n } = useTranslation('runs');
  const { tools } = useTools();
  const run = useRunStatus(chat);
  useCallChanges(chat);
  const isUnsent = useUnsent(chat)?.isWaiting === true;
  const facts = {
    messages,
    isBusy,
    isUnsent,
    run,
    status: chat.callStatus,
    surroundings: { tools, pageRuns },
  };
  const going = goingOn(facts);
  const last = messages.at(-1);
  const waiting = last === undefined ? 0 : waitsForYou(last, facts.status, facts.surroundings);
  useEffect(() => {
    noteWaiting(chatId, waiting);
    return () => {
      noteWaiting(chatId, 0);
    };
  }, [chatId, waiting]);
  const word = confirmWord(run, i18n.language);
  return (
    <div className="column min-h-7 pb-1 text-sm">
      <p role="status" data-going={going.what} className={LOOKS[going.what] ?? 'text-muted'}>
        {inWords(going, t)}
      </p>
      {going.what === 'waits-for-you' && (
        <p id={ADVICE_ID} className="text-xs text-muted">
          {t(adviceOf(run?.takesReply === true, word !== undefined), { word })}
        </p>
      )}
    </div>
  );
}

/** The id of the line about the effect of a message; it describes the composer. */
export const ADVICE_ID = 'composer-advice';

/** The effect of a message now. */
function adviceOf(takesReply: boolean, hasWord: boolean) {
  if (takesReply) return hasWord ? 'answerBoth' : 'answerInMessage';
  return hasWord ? 'answerInWords' : 'answerAbove';
}

const LOOKS: Partial<Record<Going['what'], string>> = {
  'waits-for-you': 'font-medium text-wait',
  'waits-for-page': 'text-wait',
  'waits-for-network': 'text-wait',
};

function inWords(going: Going, t: ReturnType<typeof useTranslation<'runs'>>['t']): string {
  switch (going.what) {
    case 'nothing':
      return '';
    case 'running':
      return t('running', {
        count: going.tools.length,
        tools: [...new Set(going.tools)].map(inOneLine).join(', '),
      });
    case 'waits-for-resource':
      return t(going.isOfThisChat ? 'resource.here' : 'resource.elsewhere', {
        resource: inOneLine(going.resource),
      });
    case 'planning':
    case 'thinking':
    case 'writing':
    case 'reading-results':
    case 'waits-for-you':
    case 'waits-for-people':
    case 'waits-for-page':
    case 'waits-for-capacity':
    case 'waits-for-network':
      return t(going.what);
  }
}
