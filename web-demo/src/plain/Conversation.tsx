// One chat, with `useChat` of the AI SDK and nothing of Fermata's but the helper: `server.chat(…)` instead of
// `new Chat(…)`.

import { Chat, useChat } from '@ai-sdk/react';
import { useGivenBack } from 'fermata-chat/react';
import { useEffect, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Composer } from '../chat/composer/Composer';
import { useReplyCheck } from '../chat/composer/ReplyDialog';
import { focusComposer } from '../chat/ui/focusComposer';
import { ToolChoiceMenu } from '../chat/composer/ToolChoiceMenu';
import { useDraft } from '../chat/composer/useDraft';
import { ContextButton } from '../chat/context/ContextButton';
import { DeletedNotice } from '../chat/frame/DeletedNotice';
import { Greeting } from '../chat/frame/Greeting';
import { MessageList } from '../chat/messages/MessageList';
import type { MessageActions } from '../chat/messages/MessageView';
import { tryAgain } from '../chat/messages/tryAgain';
import { isParked, type FilePart, type Message } from '../chat/record/message';
import { ADVICE_ID, RunLine } from '../chat/runs/RunLine';
import { isNewChat } from '../chat/server/chatId';
import { server, unknownChats } from '../chat/server/server';
import { useCell } from '../state/cell';

/** The interval between updates of the page, in milliseconds: short enough to look like writing. */
const THROTTLE = 50;

/** The chat of this id, from the server. */
export const useChatOf = (id: string) => useMemo(() => server.chat(Chat<Message>, { id }), [id]);

export function Conversation({ id, chat }: { id: string; chat: ReturnType<typeof useChatOf> }) {
  useEffect(() => chat.open({ isNew: isNewChat(id) }), [chat, id]);
  // Where one begins, one begins to write.
  useEffect(() => {
    if (isNewChat(id)) focusComposer();
  }, [id]);
  const { messages, status, error } = useChat({ chat, throttle: THROTTLE });
  const givenBack = useGivenBack(chat);
  const isEmpty = useCell(unknownChats).has(id) || isNewChat(id);
  const { t } = useTranslation();
  const last = messages.at(-1);
  const [text, setText] = useState('');
  useDraft({ chatId: id, chat, messages, text, setText });
  const isBusy = status === 'submitted' || status === 'streaming' || isParked(last);

  const [edited, setEdited] = useState<string>();
  // The same object for every rendering, or every message would be rendered again.
  const actions = useMemo<MessageActions>(
    () => ({
      beginEdit: (messageId) => {
        setEdited(messageId);
        if (messageId === undefined) focusComposer();
      },
      edit: (message, text) => {
        const files = message.parts.filter((part) => part.type === 'file');
        void chat.sendMessage({ text, files, messageId: message.id });
      },
      regenerate: (messageId) => void chat.regenerate({ messageId }),
    }),
    [chat],
  );
  const send = (text: string, files: FilePart[] = []) => {
    void chat.sendMessage(text === '' ? { files } : { text, files });
    focusComposer();
  };
  const clear = () => {
    setText('');
  };
  const reply = useReplyCheck({
    chat,
    messages,
    onSend: () => {
      send(text.trim());
      clear();
    },
    onAnswered: clear,
  });
  const stop = () => {
    focusComposer();
    // If the server cannot be reached, the page shows that it looks for it.
    void chat.stop().catch(() => undefined);
  };

  return (
    <>
      <MessageList
        messages={messages}
        status={status}
        error={error === givenBack?.error ? undefined : error}
        chat={chat}
        actions={actions}
        edited={edited}
        onTryAgain={() => {
          tryAgain(chat, last);
        }}
      >
        {isEmpty && <Greeting id={id} onChoose={send} />}
        {!isEmpty && error === undefined && (
          <p className="pt-8 text-sm text-muted">{t('messages.loading')}</p>
        )}
      </MessageList>
      <RunLine chatId={id} {...{ chat, messages, isBusy }} />
      <DeletedNotice chatId={id} {...{ chat, messages }} />
      {reply.dialog}
      <Composer
        text={text}
        setText={setText}
        onSend={(words, files) => {
          if (files.length === 0 && reply.asks(words)) return false;
          send(words, files);
          return true;
        }}
        onStop={stop}
        onEditLast={() => {
          setEdited(messages.findLast(({ role }) => role === 'user')?.id);
        }}
        isBusy={isBusy}
        advice={ADVICE_ID}
        givenBack={givenBack}
      >
        <ToolChoiceMenu chatId={id} />
        {messages.length > 0 && <ContextButton chat={chat} />}
      </Composer>
    </>
  );
}
