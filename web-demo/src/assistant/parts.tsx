// The parts of a message, each drawn by the components of both pages. If these need the part as the AI SDK has
// it, it is found in the chat.

import { useMemo } from 'react';
import { useAuiState } from '@assistant-ui/react';
import type {
  DataMessagePartProps,
  FileMessagePartProps,
  ImageMessagePartProps,
  SourceMessagePartProps,
  ToolCallMessagePartProps,
} from '@assistant-ui/react';
import { ElicitationCard } from '../chat/calls/ElicitationCard';
import { Gate } from '../chat/calls/Gate';
import { QuestionOfOldClient } from '../chat/calls/StepView';
import { ToolCard } from '../chat/calls/ToolCard';
import { CompactionLine, SummaryLine } from '../chat/context/SummaryLine';
import { isToldAsMemory } from '../chat/memories/memories';
import { MemoryChanges, UsedMemories } from '../chat/memories/MemoryUse';
import { DeleteMessage } from '../chat/messages/DeleteMessage';
import { Files, Sources } from '../chat/messages/Files';
import { Reasoning } from '../chat/messages/Reasoning';
import { RefusedParts } from '../chat/messages/RefusedParts';
import { UnsentNote } from '../chat/messages/UnsentNote';
import {
  copyOf,
  isShownAsCall,
  isPlanContinued,
  isShownAsQuestion,
  isToldAsPlan,
  isToolPart,
  planCallOf,
  type Message,
  type SourcePart,
} from '../chat/record/message';
import { PlanList } from '../chat/runs/PlanList';
import { useTools } from '../chat/server/useTools';
import { Text } from '../chat/text/Text';
import { toolCallIdOf, useFermataThread } from 'fermata-chat/assistant-ui';

/** A text of the person, as it was written. */
const Words = ({ text }: { text: string }) => (
  <p dir="auto" className="whitespace-pre-wrap">
    {text}
  </p>
);

const Thought = ({ text, status }: { text: string; status: { type: string } }) =>
  text === '' && status.type !== 'running' ? null : (
    <Reasoning part={{ type: 'reasoning', text, state: status.type === 'running' ? 'streaming' : 'done' }} />
  );

const ModelText = ({ text, status }: { text: string; status: { type: string } }) =>
  text === '' ? null : <Text text={text} isGrowing={status.type === 'running'} />;

/** The chat, and the message that is being drawn as the AI SDK has it. */
function useMessage() {
  const chat = useFermataThread();
  const id = useAuiState(({ message }) => message.id);
  const found = chat?.messages.findLast((message) => message.id === id) as Message | undefined;
  const message = useMemo(() => found && copyOf(found), [found]);
  return { chat, message };
}

/** A message that waits for the person is not finished, though its run counts as ended here. */
export const useIsGrowing = () =>
  useAuiState(
    ({ message }) => message.status?.type === 'running' || message.status?.type === 'requires-action',
  );

function Call({ toolCallId }: ToolCallMessagePartProps) {
  const { chat, message: drawn } = useMessage();
  const { tools } = useTools();
  const isGrowing = useIsGrowing();
  const id = toolCallIdOf(toolCallId);
  const partIn = (message: Message | undefined) =>
    message?.parts
      .filter(isToolPart)
      .find((part) => part.toolCallId === id || part.toolCallId === toolCallId);
  // assistant-ui draws answers that follow each other as one, such as that of a call which was tried again.
  const message = partIn(drawn)
    ? drawn
    : (chat?.messages as Message[] | undefined)?.findLast((message) => partIn(message) !== undefined);
  const part = partIn(message);
  if (chat === undefined || message === undefined || part === undefined) return null;
  if (isShownAsQuestion(part, message)) return null;
  return (
    <div className="my-3">
      <ToolCard
        part={part}
        message={message}
        chat={chat}
        tools={tools}
        isQuiet={isToldAsMemory(part, message, tools?.own) || isToldAsPlan(part, message, tools?.own)}
        isGrowing={isGrowing}
        isPlanContinued={isPlanContinued(message, chat.messages as Message[])}
      />
    </div>
  );
}

/** The gate that the calls of the last step wait for together. */
export function LastGate() {
  const { chat, message } = useMessage();
  return chat && message && <Gate message={message} chat={chat} />;
}

/** The memories that the model received for the message. */
export function MemoriesUsed() {
  const { message } = useMessage();
  return message && <UsedMemories message={message} />;
}

/** The parts of the chat that the model answered without. */
export function PartsRefused() {
  const { chat, message } = useMessage();
  return chat && message && <RefusedParts parts={message.metadata?.refused} chat={chat} />;
}

export function DeleteThisMessage() {
  const { chat, message } = useMessage();
  return chat && message && <DeleteMessage chat={chat} messageId={message.id} />;
}

/** A note that the message waits for the network. */
export function UnsentMessage() {
  const { chat, message } = useMessage();
  return chat && message && <UnsentNote chat={chat} messageId={message.id} />;
}

/** The summary, if the message is the last one that it covers. */
export function SummaryAfterMessage() {
  const { chat, message } = useMessage();
  return chat && message && <SummaryLine chat={chat} after={[message]} />;
}

/** The changes of memories in the run of the message. */
export function MemoriesChanged() {
  const { message } = useMessage();
  return message && <MemoryChanges message={message} />;
}

function Data({ name, data }: DataMessagePartProps) {
  const { chat, message } = useMessage();
  const { tools } = useTools();
  const isGrowing = useIsGrowing();
  if (chat === undefined || message === undefined) return null;
  if (name === 'compaction') return <CompactionLine data={data as unknown} isGrowing={isGrowing} />;
  if (name === 'plan')
    return planCallOf(message, tools?.own) !== undefined ? null : (
      <PlanList
        data={data as unknown}
        isContinued={isPlanContinued(message, chat.messages as Message[])}
        {...{ chat, isGrowing }}
      />
    );
  if (name === 'tool-approval') return <QuestionOfOldClient part={{ data }} message={message} chat={chat} />;
  if (name !== 'elicitation' || isShownAsCall(data, message)) return null;
  return (
    <div className="my-3">
      <ElicitationCard part={{ type: 'data-elicitation', data }} chat={chat} />
    </div>
  );
}

const File = ({ data, mimeType, filename }: FileMessagePartProps) => (
  <Files
    parts={[{ type: 'file', url: data, mediaType: mimeType, ...(filename !== undefined && { filename }) }]}
  />
);

/** assistant-ui has a kind of its own for pictures. */
const Image = ({ image, filename }: ImageMessagePartProps) => (
  <Files
    parts={[{ type: 'file', url: image, mediaType: 'image/*', ...(filename !== undefined && { filename }) }]}
  />
);

function Source(source: SourceMessagePartProps) {
  const { id: sourceId, title = '' } = source;
  const part: SourcePart =
    source.sourceType === 'url'
      ? { type: 'source-url', sourceId, url: source.url, title: title === '' ? source.url : title }
      : { type: 'source-document', sourceId, title, mediaType: source.mediaType };
  return <Sources parts={[part]} />;
}

/** A file that was sent with a message. */
export function SentFile() {
  const attachment = useAuiState((state) => state.attachment);
  return attachment.content?.map((part, place) => {
    if (part.type === 'image')
      return (
        <Files
          key={place}
          parts={[{ type: 'file', url: part.image, mediaType: 'image/*', filename: attachment.name }]}
        />
      );
    if (part.type !== 'file') return null;
    return (
      <Files
        key={place}
        parts={[{ type: 'file', url: part.data, mediaType: part.mimeType, filename: attachment.name }]}
      />
    );
  });
}

export const USER_PARTS = { Text: Words, File, Image };
export const MODEL_PARTS = {
  Text: ModelText,
  Reasoning: Thought,
  File,
  Image,
  Source,
  tools: { Fallback: Call },
  data: { Fallback: Data },
};
