// What the model thought, folded away.

import { Brain, ChevronRight } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { ReasoningPart } from '../record/message';
import { Text } from '../text/Text';

export function Reasoning({ part }: { part: ReasoningPart }) {
  const { t } = useTranslation();
  const isThinking = part.state === 'streaming';
  return (
    <details className="group/thought my-2 text-sm">
      <summary
        className={
          'inline-flex cursor-pointer list-none items-center gap-1.5 rounded-lg py-1 pr-2 text-muted ' +
          'hover:text-ink pointer-coarse:min-h-11'
        }
      >
        <ChevronRight
          className="size-4 transition-transform group-open/thought:rotate-90"
          aria-hidden="true"
        />
        <Brain className="size-4" aria-hidden="true" />
        <span className={isThinking ? 'animate-breathe' : ''}>
          {t(isThinking ? 'messages.thinking' : 'messages.thought')}
        </span>
      </summary>
      <div className="mt-1 ml-2 border-l-2 border-line pl-4 text-muted">
        <Text text={part.text} isGrowing={isThinking} />
      </div>
    </details>
  );
}
