// One message. It is rendered again only when it has changed: the AI SDK keeps the object of a message that
// has not.

import { Pencil, RotateCcw } from 'lucide-react';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import { localeOf } from '../../i18n/language';
import type { FermataChat } from 'fermata-chat';
import { Gate } from '../calls/Gate';
import { StepView } from '../calls/StepView';
import { CompactionLine } from '../context/SummaryLine';
import { MemoryChanges, UsedMemories } from '../memories/MemoryUse';
import {
  groupParts,
  isSamePart,
  planCallOf,
  textOf,
  type Group,
  type Message,
  type Metadata,
} from '../record/message';
import { PlanList } from '../runs/PlanList';
import { useTools } from '../server/useTools';
import { Text } from '../text/Text';
import { CopyButton } from '../ui/CopyButton';
import { IconButton } from '../ui/IconButton';
import { DeleteMessage } from './DeleteMessage';
import { Files, Sources } from './Files';
import { MessageEditor } from './MessageEditor';
import { Reasoning } from './Reasoning';
import { RefusedParts } from './RefusedParts';
import { UnsentNote } from './UnsentNote';

export interface MessageActions {
  /** Begins to write a user message again; without an id, ends that. */
  beginEdit: (messageId: string | undefined) => void;
  /** Sends a user message again with other words; it gets a new answer. */
  edit: (message: Message, text: string) => void;
  /** Has an answer made again. */
  regenerate: (messageId: string) => void;
}

interface Props {
  message: Message;
  chat: FermataChat;
  actions: MessageActions;
  isLast: boolean;
  /** `true` if it is still being written. */
  isGrowing: boolean;
  /** `true` if the person writes it again. */
  isEdited: boolean;
  /** `true` if a later message has its plan. */
  isPlanContinued?: boolean;
}

export const MessageView = memo((props: Props) =>
  props.message.role === 'user' ? <FromUser {...props} /> : <FromModel {...props} />,
);
MessageView.displayName = 'MessageView';

function FromUser({ message, chat, actions, isEdited }: Props) {
  const { t } = useTranslation();
  if (isEdited)
    return (
      <MessageEditor
        text={textOf(message)}
        onDone={(text) => {
          actions.beginEdit(undefined);
          if (text !== undefined) actions.edit(message, text);
        }}
      />
    );
  return (
    <article aria-label={t('messages.you')} className="group/message my-6 flex flex-col items-end">
      <div className="max-w-[85%] rounded-2xl rounded-br-md bg-accent-soft px-4 py-2.5 wrap-anywhere">
        {groupParts(message.parts).map((group) =>
          group.kind === 'text' ? (
            <p key={group.key} dir="auto" className="whitespace-pre-wrap">
              {group.part.text}
            </p>
          ) : (
            <GroupView key={group.key} group={group} />
          ),
        )}
      </div>
      <UnsentNote chat={chat} messageId={message.id} />
      <div
        className={
          'mt-1 -mb-5 flex opacity-0 transition-opacity group-focus-within/message:opacity-100 ' +
          'group-hover/message:opacity-100 pointer-coarse:opacity-100'
        }
      >
        <CopyButton label={t('messages.copy')} text={() => textOf(message)} />
        <IconButton
          label={t('messages.edit')}
          onClick={() => {
            actions.beginEdit(message.id);
          }}
        >
          <Pencil />
        </IconButton>
        <DeleteMessage chat={chat} messageId={message.id} />
      </div>
    </article>
  );
}

function FromModel({ message, chat, actions, isLast, isGrowing, isPlanContinued = false }: Props) {
  const { t } = useTranslation();
  const { tools } = useTools();
  return (
    <article
      aria-label={t('messages.assistant')}
      className="group/message my-6 min-w-0"
      aria-busy={isGrowing}
    >
      <UsedMemories message={message} />
      <RefusedParts parts={message.metadata?.refused} chat={chat} />
      {groupParts(message.parts).map((group) => {
        if (group.kind === 'step')
          return (
            <StepView
              key={group.key}
              parts={group.parts}
              message={message}
              chat={chat}
              isGrowing={isGrowing}
              isPlanContinued={isPlanContinued}
            />
          );
        if (group.kind === 'compaction')
          return <CompactionLine key={group.key} data={group.part.data} isGrowing={isGrowing} />;
        if (group.kind === 'plan')
          return planCallOf(message, tools?.own) !== undefined ? null : (
            <PlanList
              key={group.key}
              data={group.part.data}
              isContinued={isPlanContinued}
              {...{ chat, isGrowing }}
            />
          );
        return <GroupView key={group.key} group={group} />;
      })}
      <MemoryChanges message={message} />
      {isLast && <Gate message={message} chat={chat} />}
      {!isGrowing && (
        <footer
          className={`mt-1 -mb-4 flex min-h-8 flex-wrap items-center text-muted transition-opacity ${
            isLast
              ? ''
              : 'opacity-0 group-focus-within/message:opacity-100 group-hover/message:opacity-100 ' +
                'pointer-coarse:opacity-100'
          }`}
        >
          <CopyButton label={t('messages.copy')} text={() => textOf(message)} className="-ml-2" />
          {isLast && (
            <IconButton
              label={t('messages.regenerate')}
              onClick={() => {
                actions.regenerate(message.id);
              }}
            >
              <RotateCcw />
            </IconButton>
          )}
          <DeleteMessage chat={chat} messageId={message.id} />
          {message.metadata && <MetadataLine metadata={message.metadata} />}
        </footer>
      )}
    </article>
  );
}

/** Returns `true` if two groups show the same. */
function isSameGroup(one: Group, other: Group): boolean {
  if (one.kind !== other.kind || one.key !== other.key) return false;
  const left = 'parts' in one ? one.parts : [one.part];
  const right = 'parts' in other ? other.parts : [other.part];
  return (
    left.length === right.length && left.every((part, place) => isSamePart(part, right[place] as typeof part))
  );
}

const GroupView = memo(
  ({ group }: { group: Group }) => {
    switch (group.kind) {
      case 'text':
        return <Text text={group.part.text} isGrowing={group.part.state === 'streaming'} />;
      case 'reasoning':
        return <Reasoning part={group.part} />;
      case 'files':
        return <Files parts={group.parts} />;
      case 'sources':
        return <Sources parts={group.parts} />;
      case 'step':
      case 'compaction':
      case 'plan':
        // Only a message of the model has one, and shows it itself.
        return null;
      default:
        return group satisfies never;
    }
  },
  (one, other) => isSameGroup(one.group, other.group),
);
GroupView.displayName = 'GroupView';

/** The model of the message, its duration, and its output tokens. Input tokens grow with the chat, and say nothing of the message. */
export function MetadataLine({ metadata: { model, durationMs, usage, ending } }: { metadata: Metadata }) {
  const { t, i18n } = useTranslation();
  const number = new Intl.NumberFormat(localeOf(i18n.language), { maximumFractionDigits: 1 });
  const tokens = usage?.outputTokens;
  const facts = [
    model,
    durationMs !== undefined && t('messages.seconds', { value: number.format(durationMs / 1000) }),
    tokens !== undefined && tokens > 0 && t('messages.tokens', { count: tokens }),
    ending === 'step_limit' && t('messages.stepLimit'),
  ].filter((fact): fact is string => typeof fact === 'string' && fact !== '');
  return <p className="ml-2 text-xs">{facts.join(' · ')}</p>;
}
