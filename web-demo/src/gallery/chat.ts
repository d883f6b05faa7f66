// A chat without a server, which takes every answer after a moment.

import { FermataError, type FermataChat, type RunStatus } from 'fermata-chat';
import { isRecord } from '../chat/record/isRecord';
import { effectOf, statuses } from './states';

/** `/gallery?answer=refuse` has every answer refused. */
const isRefused = new URLSearchParams(location.search).get('answer') === 'refuse';

const answer = () =>
  isRefused
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

const followed = <VALUE>(value: VALUE) => ({ get: () => value, subscribe: () => () => undefined });

/** The effect of a note with another input. */
const previewOf = (inputText: string) => {
  const input: unknown = JSON.parse(inputText);
  return isRecord(input) && typeof input['title'] === 'string' && typeof input['body'] === 'string'
    ? { details: effectOf({ title: input['title'], body: input['body'] }) }
    : {};
};

export function chatWith(gateClosed: boolean): FermataChat {
  const run: RunStatus = { stage: 'tool_call', requiresConfirm: true, gateClosed };
  return {
    connection: 'open',
    open: () => () => undefined,
    refresh: answer,
    addToolOutput: answer,
    addToolApprovalResponse: answer,
    answerElicitation: answer,
    stop: answer,
    callStatus: (toolCallId) => statuses.get(toolCallId),
    onCallStatus: () => () => undefined,
    contextUsage: followed(undefined),
    runStatus: followed(run),
    cancelCall: answer,
    noteEditing: () => Promise.resolve(),
    previewInput: (_, inputText) => Promise.resolve({ decision: 'ask', ...previewOf(inputText) }),
    retryCall: answer,
    deleteMessage: answer,
    dropPlan: answer,
    summary: followed(undefined),
    chosen: followed({}),
    unsent: followed(undefined),
    givenBack: followed(undefined),
    correctSummary: answer,
    compact: answer,
  };
}
