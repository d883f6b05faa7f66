// Where a message is written.

import { AttachmentPrimitive, ComposerPrimitive, useAui, useAuiState } from '@assistant-ui/react';
import { ArrowUp, Paperclip, Square, X } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { NotTaken, withWordsBack } from '../chat/composer/Composer';
import { useReplyCheck } from '../chat/composer/ReplyDialog';
import { fileOf, LARGEST, refusalOf } from '../chat/composer/attachments';
import { COMPOSER_ID } from '../chat/ui/focusComposer';
import { ToolChoiceMenu } from '../chat/composer/ToolChoiceMenu';
import { useDraft } from '../chat/composer/useDraft';
import { useStopKey } from '../chat/composer/useStopKey';
import { ContextButton } from '../chat/context/ContextButton';
import { DeletedNotice } from '../chat/frame/DeletedNotice';
import { isParked, textOf, type Message } from '../chat/record/message';
import { ADVICE_ID, RunLine } from '../chat/runs/RunLine';
import { IconButton } from '../chat/ui/IconButton';
import { useFermataThread, type AssistantChat } from 'fermata-chat/assistant-ui';
import { useGivenBack } from 'fermata-chat/react';
import { useCallback, useEffect, useEffectEvent, type SyntheticEvent } from 'react';
import { Input } from './Input';

/** `isShown`: the composer of assistant-ui is that of this chat. */
export function Writer({ id, isShown }: { id: string; isShown: boolean }) {
  const { t } = useTranslation();
  const aui = useAui();
  const chat = useFermataThread();
  const isEmpty = useAuiState(({ composer }) => composer.isEmpty);
  const hasMessages = useAuiState(({ thread }) => thread.messages.length > 0);
  // assistant-ui's threads do not run while they wait for the person; a run that waits can still be stopped.
  const isBusy =
    chat !== undefined &&
    (chat.status === 'submitted' ||
      chat.status === 'streaming' ||
      isParked(chat.messages.at(-1) as Message | undefined));
  const stop = () => {
    aui.thread.cancelRun();
  };
  useStopKey(isBusy, stop);
  const reply = useReplyCheck({
    chat,
    messages: (chat?.messages ?? []) as Message[],
    onSend: () => {
      aui.composer.send();
    },
    onAnswered: () => {
      aui.composer.setText('');
    },
  });
  /** assistant-ui sends on a submit and on a click of its button, unless the default of the event is prevented. */
  const askFirst = (event: SyntheticEvent) => {
    const { text, attachments } = aui.composer.getState();
    if (attachments.length === 0 && reply.asks(text)) event.preventDefault();
  };
  return (
    <>
      {chat && isShown && <KeptDraft id={id} chat={chat} />}
      {chat && <RunLine chatId={id} chat={chat} messages={chat.messages as Message[]} isBusy={isBusy} />}
      {chat && <GivenBackWords chat={chat} />}
      {chat && <DeletedNotice chatId={id} chat={chat} messages={chat.messages} />}
      {chat && reply.dialog}
      <ComposerPrimitive.Root
        className="column pb-[max(0.75rem,env(safe-area-inset-bottom))]"
        onSubmit={askFirst}
      >
        <ul aria-label={t('composer.attached')} className="mb-2 flex flex-wrap gap-2 empty:hidden">
          <ComposerPrimitive.Attachments>{() => <Attached />}</ComposerPrimitive.Attachments>
        </ul>
        <ComposerPrimitive.AttachmentDropzone
          className={
            'relative rounded-2xl border border-field bg-raised shadow-sm transition-colors ' +
            'focus-within:border-accent data-[dragging=true]:border-accent ' +
            'data-[dragging=true]:bg-accent-soft'
          }
        >
          <Input
            id={COMPOSER_ID}
            onEditLast={() => {
              const index = aui.thread.getState().messages.findLastIndex(({ role }) => role === 'user');
              if (isEmpty && index >= 0) aui.thread.message({ index }).composer().beginEdit();
            }}
            aria-label={t('composer.label')}
            aria-describedby={`${ADVICE_ID} composer-hint`}
            placeholder={t('composer.placeholder')}
            className={
              'block max-h-[40dvh] w-full resize-none bg-transparent px-4 pt-3 pb-1 outline-none ' +
              'placeholder:text-muted'
            }
          />
          <div className="flex items-end gap-1 px-2 pb-2">
            <div className="flex min-w-0 flex-1 flex-wrap items-center gap-1">
              <ComposerPrimitive.AddAttachment asChild>
                <IconButton label={t('composer.attach')}>
                  <Paperclip />
                </IconButton>
              </ComposerPrimitive.AddAttachment>
              <ToolChoiceMenu chatId={id} />
              {chat !== undefined && hasMessages && <ContextButton chat={chat} />}
            </div>
            {isBusy && (
              <IconButton label={t('composer.stop')} tone="outlined" onClick={stop}>
                <Square className="fill-current" />
              </IconButton>
            )}
            {(!isBusy || !isEmpty) && (
              <ComposerPrimitive.Send asChild onClick={askFirst}>
                <IconButton label={t('composer.send')} type="submit" tone="primary">
                  <ArrowUp />
                </IconButton>
              </ComposerPrimitive.Send>
            )}
          </div>
        </ComposerPrimitive.AttachmentDropzone>
        <p id="composer-hint" className="mt-1.5 text-center text-xs text-muted pointer-coarse:sr-only">
          {t('composer.hint')}
        </p>
      </ComposerPrimitive.Root>
    </>
  );
}

/** Keeps the words of the composer over a switch of the chat and a reload. */
function KeptDraft({ id, chat }: { id: string; chat: AssistantChat }) {
  const aui = useAui();
  const text = useAuiState(({ composer }) => composer.text);
  const setText = useCallback(
    (words: string) => {
      aui.composer.setText(words);
    },
    [aui],
  );
  useDraft({ chatId: id, chat, messages: chat.messages, text, setText });
  return null;
}

/** Puts the words and files of a message that was not taken back into the composer, and says why. */
function GivenBackWords({ chat }: { chat: AssistantChat }) {
  const aui = useAui();
  const givenBack = useGivenBack(chat);
  const takeBack = useEffectEvent((message: Message) => {
    aui.composer.setText(withWordsBack(textOf(message), aui.composer.getState().text));
    for (const part of message.parts) if (part.type === 'file') void aui.composer.addAttachment(fileOf(part));
  });
  useEffect(() => {
    if (givenBack !== undefined) takeBack(givenBack.message as Message);
  }, [givenBack]);
  if (givenBack === undefined) return null;
  return (
    <div className="column">
      <NotTaken error={givenBack.error} />
    </div>
  );
}

/** A file that is to be sent, or why it is not. */
function Attached() {
  const { t } = useTranslation();
  const name = useAuiState(({ attachment }) => attachment.name);
  const file = useAuiState(({ attachment }) => attachment.file);
  const refusal = file && refusalOf(file);
  return (
    <AttachmentPrimitive.Root asChild>
      <li
        className={
          'inline-flex max-w-full items-center gap-1 rounded-card border border-field py-0.5 pr-1 pl-3 ' +
          `text-sm ${refusal ? 'bg-bad-soft text-bad' : 'bg-raised'}`
        }
      >
        <span className="truncate" role={refusal && 'alert'}>
          {refusal === 'refusedType' && t('composer.refusedType', { name })}
          {refusal === 'refusedSize' &&
            t('composer.refusedSize', { name, size: String(LARGEST / 1_000_000) })}
          {refusal === undefined && name}
        </span>
        <AttachmentPrimitive.Remove asChild>
          <IconButton label={t('composer.remove', { name })}>
            <X />
          </IconButton>
        </AttachmentPrimitive.Remove>
      </li>
    </AttachmentPrimitive.Root>
  );
}
