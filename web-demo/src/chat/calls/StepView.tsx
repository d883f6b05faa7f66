// The calls of a step, and what they ask. The cards know themselves when they have changed.

import { useTranslation } from 'react-i18next';
import type { FermataChat } from 'fermata-chat';
import { isToldAsMemory } from '../memories/memories';
import { isRecord } from '../record/isRecord';
import {
  isShownAsCall,
  isShownAsQuestion,
  isToldAsPlan,
  isToolPart,
  toolNameOf,
  type DataPart,
  type Message,
  type ToolPart,
} from '../record/message';
import { useTools } from '../server/useTools';
import { useSeen, WholeInput } from '../values/seen';
import { ValueSection } from '../values/ToolValue';
import { ApprovalQuestion } from './ApprovalCard';
import { ElicitationCard } from './ElicitationCard';
import { ToolCard } from './ToolCard';

interface Props {
  parts: readonly (ToolPart | DataPart)[];
  message: Message;
  chat: FermataChat;
  /** `true` if the message is still being written. */
  isGrowing?: boolean;
  /** `true` if a later message has the plan of this one. */
  isPlanContinued?: boolean;
}

export function StepView({ parts, message, chat, isGrowing = false, isPlanContinued = false }: Props) {
  const { tools } = useTools();
  return (
    <div className="my-4 space-y-3">
      {parts.map((part, place) => {
        if (isToolPart(part)) {
          if (isShownAsQuestion(part, message)) return null;
          return (
            <ToolCard
              key={part.toolCallId}
              part={part}
              message={message}
              chat={chat}
              tools={tools}
              isQuiet={isToldAsMemory(part, message, tools?.own) || isToldAsPlan(part, message, tools?.own)}
              isGrowing={isGrowing}
              isPlanContinued={isPlanContinued}
            />
          );
        }
        const key = part.id ?? `data-${place}`;
        if (part.type === 'data-elicitation')
          return isShownAsCall(part.data, message) ? null : (
            <ElicitationCard key={key} part={part} chat={chat} />
          );
        return <QuestionOfOldClient key={key} part={part} message={message} chat={chat} />;
      })}
    </div>
  );
}

/**
 * The question of a call as it is put to a client of version 5, which has no state for it: this page sees it
 * where the chat was last posted by such a client.
 */
export function QuestionOfOldClient({
  part: { data },
  message,
  chat,
}: {
  part: { data: unknown };
  message: Message;
  chat: FermataChat;
}) {
  const { tools } = useTools();
  const { t } = useTranslation('cards');
  const approvalId =
    isRecord(data) && typeof data['approvalId'] === 'string' ? data['approvalId'] : undefined;
  const whole = useSeen(approvalId ?? '');
  if (approvalId === undefined || !isRecord(data)) return null;
  const call = message.parts.filter(isToolPart).find(({ toolCallId }) => toolCallId === data['toolCallId']);
  if (call?.state !== 'input-available') return null;
  const name = toolNameOf(call);
  const schema = tools?.listed.find((tool) => tool.name === name)?.inputSchema;
  const reason = typeof data['reason'] === 'string' ? data['reason'] : undefined;
  return (
    <div className="space-y-3">
      <WholeInput value={whole}>
        <ValueSection label={t('card.input')} value={call.input} />
      </WholeInput>
      <ApprovalQuestion
        {...{ chat, approvalId, name, schema, reason }}
        toolCallId={call.toolCallId}
        told={data}
        input={call.input}
        isPlan={name === tools?.own?.makePlan}
      />
    </div>
  );
}
