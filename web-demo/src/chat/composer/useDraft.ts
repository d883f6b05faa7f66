// Keeps what is written in a chat and not sent, over a switch of the chat, a reload and a closed tab.

import type { FermataChat } from 'fermata-chat';
import { useUnsent } from 'fermata-chat/react';
import { useEffect, useRef } from 'react';
import { textOf, type Message } from '../record/message';
import { draftOf, keepDraft, withoutOutgoing, wordsOf, type Outgoing } from '../server/drafts';

interface Options {
  chatId: string;
  chat: Pick<FermataChat, 'unsent'>;
  messages: readonly { id: string }[];
  /** The words in the field. */
  text: string;
  setText: (text: string) => void;
}

export function useDraft({ chatId, chat, messages, text, setText }: Options) {
  const unsent = useUnsent(chat)?.message as Message | undefined;
  const restored = useRef(false);
  /** The message that was on its way when the draft was kept. */
  const outgoing = useRef<Outgoing>(undefined);
  useEffect(() => {
    if (!restored.current) {
      restored.current = true;
      const draft = draftOf(chatId);
      outgoing.current = draft.outgoing;
      const words = wordsOf(draft);
      if (words !== '' && text === '') {
        setText(words);
        return;
      }
    }
    keepDraft(chatId, { text, ...(unsent && { outgoing: { id: unsent.id, text: textOf(unsent) } }) });
  }, [chatId, text, setText, unsent]);
  useEffect(() => {
    const sent = outgoing.current;
    if (sent === undefined || !messages.some(({ id }) => id === sent.id)) return;
    // It had arrived after all.
    outgoing.current = undefined;
    setText(withoutOutgoing(text, sent));
  }, [messages, text, setText]);
}
