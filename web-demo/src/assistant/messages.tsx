// One message, and what can be done with it.

import { ActionBarPrimitive, ComposerPrimitive, MessagePrimitive, useAuiState } from '@assistant-ui/react';
import { Check, Copy, Pencil, RotateCcw } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { MetadataLine } from '../chat/messages/MessageView';
import { IconButton } from '../chat/ui/IconButton';
import { Input } from './Input';
import {
  DeleteThisMessage,
  LastGate,
  MemoriesChanged,
  MemoriesUsed,
  MODEL_PARTS,
  PartsRefused,
  SentFile,
  SummaryAfterMessage,
  UnsentMessage,
  useIsGrowing,
  USER_PARTS,
} from './parts';

const ON_HOVER =
  'opacity-0 transition-opacity group-focus-within/message:opacity-100 ' +
  'group-hover/message:opacity-100 pointer-coarse:opacity-100';

export function UserMessage() {
  const { t } = useTranslation();
  return (
    <>
      <MessagePrimitive.Root asChild>
        <article aria-label={t('messages.you')} className="group/message my-6 flex flex-col items-end">
          <div className="max-w-[85%] rounded-2xl rounded-br-md bg-accent-soft px-4 py-2.5 wrap-anywhere">
            <MessagePrimitive.Attachments>{() => <SentFile />}</MessagePrimitive.Attachments>
            <MessagePrimitive.Parts components={USER_PARTS} />
          </div>
          <UnsentMessage />
          <ActionBarPrimitive.Root className={`mt-1 -mb-5 flex ${ON_HOVER}`}>
            <CopyMessage />
            <ActionBarPrimitive.Edit asChild>
              <IconButton label={t('messages.edit')}>
                <Pencil />
              </IconButton>
            </ActionBarPrimitive.Edit>
            <DeleteThisMessage />
          </ActionBarPrimitive.Root>
        </article>
      </MessagePrimitive.Root>
      <SummaryAfterMessage />
    </>
  );
}

export function AssistantMessage() {
  const { t } = useTranslation();
  const isLast = useAuiState(({ message }) => message.isLast);
  const isGrowing = useIsGrowing();
  const metadata = useAuiState(({ message }) => message.metadata.custom);
  return (
    <>
      <MessagePrimitive.Root asChild>
        <article
          aria-label={t('messages.assistant')}
          className="group/message my-6 min-w-0"
          aria-busy={isGrowing}
        >
          <MemoriesUsed />
          <PartsRefused />
          <MessagePrimitive.Parts components={MODEL_PARTS} />
          <MemoriesChanged />
          {isLast && <LastGate />}
          {!isGrowing && (
            <footer
              className={`mt-1 -mb-4 flex min-h-8 flex-wrap items-center text-muted ${isLast ? '' : ON_HOVER}`}
            >
              <ActionBarPrimitive.Root className="-ml-2 flex">
                <CopyMessage />
                {isLast && (
                  <ActionBarPrimitive.Reload asChild>
                    <IconButton label={t('messages.regenerate')}>
                      <RotateCcw />
                    </IconButton>
                  </ActionBarPrimitive.Reload>
                )}
                <DeleteThisMessage />
              </ActionBarPrimitive.Root>
              <MetadataLine metadata={metadata} />
            </footer>
          )}
        </article>
      </MessagePrimitive.Root>
      <SummaryAfterMessage />
    </>
  );
}

function CopyMessage() {
  const { t } = useTranslation();
  const isCopied = useAuiState(({ message }) => message.isCopied);
  return (
    <ActionBarPrimitive.Copy asChild copiedDuration={1600}>
      <IconButton label={t(isCopied ? 'messages.copied' : 'messages.copy')}>
        {isCopied ? <Check className="text-good" /> : <Copy />}
      </IconButton>
    </ActionBarPrimitive.Copy>
  );
}

/** Other words for a message that was sent. */
export function UserEditComposer() {
  const { t } = useTranslation();
  return (
    <ComposerPrimitive.Root className="my-6">
      <Input
        // The person has just asked to write here.
        // eslint-disable-next-line jsx-a11y/no-autofocus
        autoFocus
        aria-label={t('messages.editLabel')}
        aria-describedby="edit-hint"
        className="field block max-h-80 min-h-24 w-full"
      />
      <div className="mt-2 flex flex-wrap items-center justify-end gap-2">
        <p id="edit-hint" className="mr-auto text-sm text-muted">
          {t('messages.editHint')}
        </p>
        <ComposerPrimitive.Cancel className="button">{t('messages.cancel')}</ComposerPrimitive.Cancel>
        <ComposerPrimitive.Send className="button button-accent">{t('messages.save')}</ComposerPrimitive.Send>
      </div>
    </ComposerPrimitive.Root>
  );
}
