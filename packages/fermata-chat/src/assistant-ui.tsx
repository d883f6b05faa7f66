// Fermata's runtime for assistant-ui: its threads are the chats of the server.
//
//   import { AssistantRuntimeProvider, AuiConfig, Tools } from '@assistant-ui/react';
//   import { useFermataRuntime } from 'fermata-chat/assistant-ui';
//
//   const config = AuiConfig({ tools: Tools({ toolkit }) });
//
//   function App() {
//     const runtime = useFermataRuntime();
//     return (
//       <AssistantRuntimeProvider runtime={runtime} config={config}>
//         <ThreadList />
//         <Thread />
//       </AssistantRuntimeProvider>
//     );
//   }
//
//   useFermataRuntime({ threadId, onThreadIdChange })        // which chat is shown, such as from the URL
//   useFermataRuntime({ repeatable: ['get_location'] })      // tools that may run again after a reload
//   useFermataRuntime({ newest: 60 })                        // long chats stay fast; see `useFermataEarlier`
//
// In a tool's UI, the props that assistant-ui gives are enough:
//
//   respondToApproval({ approved: true })
//   respondToApproval({ optionId: 'always' })                // for this tool in this chat
//   respondToApproval({ approved: false, reason: 'not today' })
//   addResult({ name: 'Ann' })                               // a tool without `execute`
//   resume({ confirmed: true })                              // what `human()` waits for
//
// and for what assistant-ui has no word for, there is the chat itself:
//
//   const chat = useFermataThread();
//   chat?.addToolApprovalResponse({ id: approval.id, approved: true, input: edited })
//   chat?.answerElicitation({ elicitationId, action: 'accept', content: { name: 'Ann' } })
//   chat?.stop()                                             // also while the run only waits
//   chat?.messages                                           // with the parts as the AI SDK has them; see `toolCallIdOf`
//
// What you can rely on:
// - Everything that the package promises: answers go on in the stream that is open, tools run once, in one
//   tab.
// - A tool with `execute` runs when the server starts it: calls that need approval wait for it, and run
//   with the input that was approved. One that waits for `human()` counts as running; name it in `repeatable`
//   to ask again after a reload.
// - While a run waits for this page only, the thread counts as not running, as assistant-ui has it: the
//   message's status is `requires-action`, and the composer sends. A new message supersedes the run.
// - The thread list is the server's. It cannot rename or archive chats; both are refused with an error.
// - The server's record is the truth: branches of edited or regenerated messages are not kept, nor are local
//   deletions.
//
// How it works: assistant-ui runs a tool only in a run that has ended, and never one that was asked about. So
// tools are run by the chat instead (see `PageTools`), and a run that waits for this page only is shown as
// ended (see `Thread`).

import { useChat } from '@ai-sdk/react';
import { useAui, useAuiState, useRemoteThreadListRuntime, type AssistantRuntime } from '@assistant-ui/react';
import { useAISDKChat, useAISDKRuntime } from '@assistant-ui/react-ai-sdk';
import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import type { FermataRuntimeOptions } from './assistant-ui/options.js';
import { Thread, type AssistantChat, type Earlier, type Presented } from './assistant-ui/thread.js';
import { Threads } from './assistant-ui/threads.js';

export type { FermataRuntimeOptions } from './assistant-ui/options.js';
export { toolCallIdOf, type AssistantChat, type Earlier } from './assistant-ui/thread.js';

/**
 * The runtime: its threads are the chats of the server.
 *
 * The options of the first rendering hold, but for `threadId` and `onThreadIdChange`.
 */
export function useFermataRuntime(options: FermataRuntimeOptions = {}): AssistantRuntime {
  const [threads] = useState(() => new Threads(options));
  const [useThisThread] = useState(() => threadHook(threads));
  return useRemoteThreadListRuntime({
    runtimeHook: useThisThread,
    adapter: threads,
    threadId: options.threadId,
    onThreadIdChange: options.onThreadIdChange,
  });
}

/** The chat of the thread that is shown, for what assistant-ui has no word for. */
export function useFermataThread(): AssistantChat | undefined {
  const helpers = useAISDKChat() as Partial<Presented> | undefined;
  return helpers?.fermata;
}

/**
 * The number of earlier messages that assistant-ui lacks of the shown thread, and a function that gives it more:
 * as many as at first.
 */
export function useFermataEarlier(): Earlier {
  const helpers = useAISDKChat() as Partial<Presented> | undefined;
  return helpers?.earlier ?? { count: 0, show: () => undefined };
}

const threadHook = (threads: Threads) =>
  function useThisThread() {
    return useThread(threads);
  };

/**
 * Which messages assistant-ui does not have yet: those before the newest at the time that the chat was
 * loaded.
 */
function useEarlier(length: number, newest = Infinity): Earlier {
  const [first, setFirst] = useState<number>();
  if (first === undefined && length > 0) setFirst(Math.max(0, length - newest));
  const count = Math.min(first ?? 0, Math.max(0, length - newest));
  const show = () => {
    setFirst(Math.max(0, count - newest));
  };
  return { count, show };
}

/** A thread's runtime; assistant-ui calls this hook for each thread that was shown. */
function useThread(threads: Threads): AssistantRuntime {
  const aui = useAui();
  const threadId = useAuiState((state) => state.threadListItem.id);
  const remoteId = useAuiState((state) => state.threadListItem.remoteId);
  const isUntitled = useAuiState((state) => state.threadListItem.title === undefined);
  const isMain = useAuiState((state) => state.threads.mainThreadId === state.threadListItem.id);
  const [thread] = useState(() => new Thread(remoteId ?? threads.idOf(threadId), threads.options));
  const [isKnown] = useState(remoteId !== undefined);
  const helpers = useChat({ chat: thread.chat, throttle: threads.options.throttle ?? 30 });
  const questions = useSyncExternalStore(thread.page.subscribe, thread.page.questions, thread.page.questions);
  const earlier = useEarlier(helpers.messages.length, threads.options.newest);
  const messages = useMemo(
    () => thread.messages(helpers.messages.slice(earlier.count), questions),
    [thread, helpers.messages, earlier.count, questions],
  );
  const presented = thread.present(helpers, messages, questions, earlier);
  const runtime = useAISDKRuntime(presented, {
    ...threads.options.runtime,
    onRespondToToolApproval: thread.respond,
    // A message may be the answer to what waits: the server says what became of each call.
    cancelPendingToolCallsOnSend: false,
  });
  useEffect(() => thread.page.attach(runtime), [thread, runtime]);
  // The list has no title of a chat that is on none of its pages that are loaded.
  useEffect(() => {
    if (remoteId === undefined || !isUntitled) return;
    const title = threads.noteTitle(remoteId, helpers.messages);
    if (title !== undefined) aui.threadListItem.generateTitle({ automatic: true });
  }, [aui, threads, remoteId, isUntitled, helpers.messages]);
  // A chat in the background is followed as long as something goes on in it, but not while it waits: a
  // browser has six connections for a server that does not speak HTTP/2, and there may be more chats that
  // wait. A new one is followed from its first message on.
  const isBusy = presented.status === 'submitted' || presented.status === 'streaming';
  const isFollowed = (isMain || isBusy) && (isKnown || helpers.messages.length > 0);
  useEffect(() => (isFollowed ? thread.follow() : undefined), [thread, isFollowed]);
  return runtime;
}
