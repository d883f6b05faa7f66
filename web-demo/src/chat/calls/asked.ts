// What a person has to know of a call to decide about it, from wherever the page knows it first: the approval request itself, the status
// of the call, or the list of what waits.

import { useEffect } from 'react';
import { askedCall, isReadExactly, type AskedCall, type ReasonCode, type Scope } from 'fermata-chat';
import { useCallStatus } from 'fermata-chat/react';
import type { useTranslation } from 'react-i18next';
import { usePicked } from '../../state/cell';
import { waiting } from '../server/chats';
import { tellServerEvent } from '../server/server';
import type { CardChat } from '../record/toolState';
import { inOneLine } from '../text/visible';

export interface Asked {
  /** The input as the JSON text that runs, if JavaScript reads it as another. */
  exactInput?: string;
  /** The scopes that "always" can have, the narrowest first. Empty until it is known. */
  scopes: readonly Scope[];
  /** Why a person is asked, as the server says it. */
  why: Why;
}

/** Why a person is asked: in words, by a code, and the words of others among them. */
export interface Why {
  reason?: string;
  reasonCode?: ReasonCode;
  reasonDetail?: string;
}

/** Follows what is known of a call that waits for a decision. `told` is what its message says. */
export function useAsked(
  chat: CardChat,
  {
    approvalId,
    toolCallId,
    reason,
    told,
  }: {
    approvalId: string;
    toolCallId: string;
    reason: string | undefined;
    told: Partial<AskedCall> | undefined;
  },
): Asked {
  const status = useCallStatus(chat, toolCallId);
  const listed = usePicked(waiting, (chats) =>
    chats.flatMap(({ pending }) => pending).find((one) => one.approvalId === approvalId),
  );
  const inputText = told?.inputText ?? status?.inputText ?? listed?.inputText;
  const scopes = told?.scopes ?? status?.scopes ?? listed?.scopes ?? [];
  const words = reason ?? listed?.reason;
  // The source of the reason's code has its details as well.
  const { reasonCode, reasonDetail } =
    [told, status, listed].find((known) => known?.reasonCode !== undefined) ?? {};
  const isComplete = reason !== undefined && inputText !== undefined && scopes.length > 0;
  useEffect(() => {
    if (!isComplete) tellServerEvent();
  }, [isComplete]);
  return {
    ...(inputText !== undefined && !isReadExactly(inputText) && { exactInput: inputText }),
    scopes,
    why: {
      ...(words !== undefined && words !== '' && { reason: words }),
      ...(reasonCode !== undefined && { reasonCode }),
      ...(reasonDetail !== undefined && { reasonDetail }),
    },
  };
}

/** Why a person is asked, in words: those of the rule or the tool, or the page's own in place of Fermata's. */
export function whyWords(
  { reason, reasonCode, reasonDetail }: Why,
  tool: string,
  t: ReturnType<typeof useTranslation<'cards'>>['t'],
): string | undefined {
  switch (reasonCode) {
    case 'chain':
    case 'memory_slot':
      return t(`because.${reasonCode}`);
    case 'tool_changed':
      return t('because.tool_changed', { tool: inOneLine(tool) });
    case 'memory_writes':
      return reasonDetail === undefined
        ? t('because.memory_writes')
        : t('because.memory_after_reading', { source: reasonDetail });
    case 'retry':
      return [reasonDetail, t('because.retry')].filter(Boolean).join(' ');
    case 'default':
    case 'rule':
    case 'tool':
    case 'auto':
    case 'always':
    case undefined:
      return reason;
  }
}

export { askedCall };

/** The calls of a scope, in words. */
export function scopeWords(
  scope: Scope,
  tool: string,
  t: ReturnType<typeof useTranslation<'cards'>>['t'],
): string {
  const { kind, of } = partsOf(scope);
  switch (kind) {
    case 'tool':
      return t('scope.tool', { tool: inOneLine(tool) });
    case 'host':
      return t('scope.host', { tool: inOneLine(tool), host: of });
    case 'folder':
      return t('scope.folder', { tool: inOneLine(tool), folder: of });
    case 'server':
      return t('scope.server', { server: of });
    default:
      return inOneLine(scope.covers);
  }
}

/** The kind of a scope that Fermata proposes, and what it is about. */
function partsOf({ id }: Scope): { kind: string; of: string } {
  const colon = id.indexOf(':');
  return colon < 0 ? { kind: id, of: '' } : { kind: id.slice(0, colon), of: inOneLine(id.slice(colon + 1)) };
}
