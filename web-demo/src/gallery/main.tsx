// Every card in every state, to look at while working on them: `npm run dev`, then
// /gallery.html?theme=dark&lang=zh&answer=refuse. Only for development; it is no part of the build.

import i18next from 'i18next';
import { createRoot } from 'react-dom/client';
import { initReactI18next } from 'react-i18next';
import { isToolUIPart } from 'ai';
import { ElicitationCard } from '../chat/calls/ElicitationCard';
import { Gate } from '../chat/calls/Gate';
import { ToolCard } from '../chat/calls/ToolCard';
import { resources } from '../i18n';
import { FermataError, type FermataChat, type RunStatus } from 'fermata-chat';
import '../theme.css';
import { elicitations, states, statuses, tools } from './states';

const wishes = new URLSearchParams(location.search);

/** Takes every answer, or refuses it. */
const answer = () =>
  wishes.get('answer') === 'refuse'
    ? Promise.reject(
        new FermataError(
          422,
          'invalid_request',
          'The input does not fit the tool: /title: "" is shorter than 1 character',
          [{ pointer: '/title', detail: '"" is shorter than 1 character' }],
        ),
      )
    : new Promise<void>((resolve) => {
        setTimeout(resolve, 1500);
      });

const NOTHING_CHOSEN = {};
const RUN: RunStatus = { stage: 'tool_call', requiresConfirm: true, gateClosed: true };

const chat: FermataChat = {
  connection: 'open',
  open: () => () => undefined,
  refresh: answer,
  addToolOutput: answer,
  addToolApprovalResponse: answer,
  answerElicitation: answer,
  stop: answer,
  callStatus: (toolCallId) => statuses.get(toolCallId),
  onCallStatus: () => () => undefined,
  contextUsage: { get: () => undefined, subscribe: () => () => undefined },
  runStatus: { get: () => RUN, subscribe: () => () => undefined },
  cancelCall: answer,
  noteEditing: answer,
  previewInput: () => Promise.resolve({ decision: 'ask' }),
  retryCall: answer,
  deleteMessage: answer,
  dropPlan: answer,
  summary: { get: () => undefined, subscribe: () => () => undefined },
  chosen: { get: () => NOTHING_CHOSEN, subscribe: () => () => undefined },
  unsent: { get: () => undefined, subscribe: () => () => undefined },
  givenBack: { get: () => undefined, subscribe: () => () => undefined },
  correctSummary: answer,
  compact: answer,
};

function Gallery() {
  return (
    <div className="mx-auto max-w-2xl space-y-8 px-4 py-8">
      {states.map(({ what, message }) => (
        <section key={what} className="space-y-2">
          <h2 className="text-xs text-muted">{what}</h2>
          {message.parts.filter(isToolUIPart).map((part) => (
            <ToolCard key={part.toolCallId} {...{ part, message, chat, tools }} />
          ))}
          <Gate {...{ message, chat }} />
        </section>
      ))}
      {elicitations.map((part) => (
        <ElicitationCard key={part.data.state} {...{ part, chat }} />
      ))}
    </div>
  );
}

document.documentElement.dataset['theme'] = wishes.get('theme') ?? 'light';
document.body.className = 'bg-paper text-ink';
void i18next.use(initReactI18next).init({
  lng: wishes.get('lang') ?? 'en',
  fallbackLng: 'en',
  resources: resources(),
  interpolation: { escapeValue: false },
});
const root = document.getElementById('root');
if (root !== null) createRoot(root).render(<Gallery />);
