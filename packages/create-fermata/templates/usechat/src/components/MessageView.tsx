import { isToolUIPart } from 'ai';
import type { FermataChat } from 'fermata-chat';
import { ElicitationCard } from './fermata/calls/ElicitationCard';
import { Gate } from './fermata/calls/Gate';
import { ToolCard } from './fermata/calls/ToolCard';
import {
  isShownAsCall,
  isShownAsQuestion,
  isToldAsPlan,
  planCallOf,
  type Message,
  type Part,
} from './fermata/record/message';
import type { ServerTools } from './fermata/record/toolState';
import { PlanList } from './fermata/runs/PlanList';
import { Markdown } from './Markdown';
import { Reasoning, Source, UserText } from './Parts';

interface MessageViewProps {
  message: Message;
  chat: FermataChat;
  tools: ServerTools | undefined;
  isGrowing: boolean;
}

export function MessageView({ message, ...more }: MessageViewProps) {
  if (message.role === 'user')
    return (
      <article
        aria-label="You"
        className="ms-auto w-fit max-w-[85%] rounded-2xl rounded-ee-md bg-accent-soft px-4 py-2.5"
      >
        {message.parts.map(
          (part, place) => part.type === 'text' && <UserText key={place} text={part.text} />,
        )}
      </article>
    );
  return (
    <article aria-label="Assistant" aria-busy={more.isGrowing} className="space-y-3">
      {message.parts.map((part, place) => (
        <PartView key={place} {...{ part, message, ...more }} />
      ))}
      <Gate message={message} chat={more.chat} />
    </article>
  );
}

function PartView({ part, message, chat, tools, isGrowing }: MessageViewProps & { part: Part }) {
  if (isToolUIPart(part)) {
    if (isShownAsQuestion(part, message)) return null;
    const isQuiet = isToldAsPlan(part, message, tools?.own);
    return <ToolCard {...{ part, message, chat, tools, isGrowing, isQuiet }} />;
  }
  switch (part.type) {
    case 'text':
      return part.text === '' ? null : <Markdown text={part.text} />;
    case 'reasoning':
      return <Reasoning text={part.text} />;
    case 'source-url':
      return <Source url={part.url} title={part.title} />;
    case 'data-elicitation':
      return isShownAsCall(part.data, message) ? null : <ElicitationCard part={part} chat={chat} />;
    case 'data-plan':
      // The card of the call that has made the plan shows it.
      return planCallOf(message, tools?.own) === undefined ? (
        <PlanList data={part.data} {...{ chat, isGrowing }} />
      ) : null;
    default:
      return null;
  }
}
