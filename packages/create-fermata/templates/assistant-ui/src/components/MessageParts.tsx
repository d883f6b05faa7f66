// The parts of a message in assistant-ui's terms. Cards get the part as the AI SDK has it, from the chat.

import {
  useAuiState,
  type DataMessagePartProps,
  type SourceMessagePartProps,
  type ToolCallMessagePartProps,
} from '@assistant-ui/react';
import { toolCallIdOf, useFermataThread } from 'fermata-chat/assistant-ui';
import { ElicitationCard } from './fermata/calls/ElicitationCard';
import { Gate } from './fermata/calls/Gate';
import { ToolCard } from './fermata/calls/ToolCard';
import {
  copyOf,
  isShownAsCall,
  isShownAsQuestion,
  isToldAsPlan,
  isToolPart,
  planCallOf,
  type Message,
  type Part,
} from './fermata/record/message';
import { PlanList } from './fermata/runs/PlanList';
import { Markdown } from './Markdown';
import { Reasoning, Source, UserText } from './Parts';
import { useServerTools } from './useServerTools';

/** Finds a message of the chat. The AI SDK goes on writing in a message that grows, so each rendering gets a copy. */
function useMessage(isIt: (message: Message) => boolean) {
  const chat = useFermataThread();
  const message = (chat?.messages as Message[] | undefined)?.findLast(isIt);
  return { chat, message: message && copyOf(message) };
}

const useThisMessage = () => {
  const id = useAuiState(({ message }) => message.id);
  return useMessage((message) => message.id === id);
};

/** A message that waits for a person is not finished, although its run has ended for assistant-ui. */
const useIsGrowing = () =>
  useAuiState(
    ({ message }) => message.status?.type === 'running' || message.status?.type === 'requires-action',
  );

/** The card of a tool call. */
export function Call({ toolCallId }: ToolCallMessagePartProps) {
  const isThisCall = (part: Part) =>
    isToolPart(part) && [toolCallId, toolCallIdOf(toolCallId)].includes(part.toolCallId);
  const { chat, message } = useMessage(({ parts }) => parts.some(isThisCall));
  const tools = useServerTools();
  const isGrowing = useIsGrowing();
  const part = message?.parts.find(isThisCall);
  if (chat === undefined || message === undefined || part === undefined || !isToolPart(part)) return null;
  if (isShownAsQuestion(part, message)) return null;
  return (
    <ToolCard
      {...{ part, message, chat, tools, isGrowing }}
      isQuiet={isToldAsPlan(part, message, tools?.own)}
    />
  );
}

/** The questions and plans of a message. */
function Data({ name, data }: DataMessagePartProps) {
  const { chat, message } = useThisMessage();
  const tools = useServerTools();
  const isGrowing = useIsGrowing();
  if (chat === undefined || message === undefined) return null;
  if (name === 'elicitation')
    return isShownAsCall(data, message) ? null : (
      <ElicitationCard part={{ type: 'data-elicitation', data }} chat={chat} />
    );
  // The card of the call that has made the plan shows it.
  if (name === 'plan' && planCallOf(message, tools?.own) === undefined)
    return <PlanList data={data as unknown} {...{ chat, isGrowing }} />;
  return null;
}

/** Below the calls of the last step: how many decisions are left. */
export function LastGate() {
  const { chat, message } = useThisMessage();
  return chat && message && <Gate message={message} chat={chat} />;
}

const ModelText = ({ text }: { text: string }) => (text === '' ? null : <Markdown text={text} />);
const UrlSource = (source: SourceMessagePartProps) =>
  source.sourceType === 'url' ? <Source url={source.url} title={source.title} /> : null;

export const userParts = { Text: UserText };
export const modelParts = {
  Text: ModelText,
  Reasoning,
  Source: UrlSource,
  tools: { Fallback: Call },
  data: { Fallback: Data },
};
