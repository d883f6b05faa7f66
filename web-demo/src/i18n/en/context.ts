// What the pages say of a chat's context, and of who answers, in English.

const context = {
  assistant: 'Assistant',
  meter: 'How full the model’s window is',
  meterLabel: '{{percent}} % of the model’s window is used: show the summary, or compact',
  open: 'Summary: show it, or compact this chat',
  summarised_one: '{{count}} earlier message, summarised',
  summarised_other: '{{count}} earlier messages, summarised',
  compaction: {
    running_one: 'Summarising {{count}} earlier message…',
    running_other: 'Summarising {{count}} earlier messages…',
    done_one: '{{count}} earlier message was summarised, so that the chat fits the model.',
    done_other: '{{count}} earlier messages were summarised, so that the chat fits the model.',
    failed_one: '{{count}} earlier message was left out without a summary, so that the chat fits the model.',
    failed_other:
      '{{count}} earlier messages were left out without a summary, so that the chat fits the model.',
  },
  title: 'Summary',
  close: 'Close the summary',
  none: 'There is no summary yet: the model reads all messages.',
  explained_one:
    'The model reads this instead of {{count}} earlier message. What you correct here, it reads from now on.',
  explained_other:
    'The model reads this instead of {{count}} earlier messages. What you correct here, it reads from now on.',
  instructions: 'Focus on (optional)',
  compact: 'Compact now',
  refused: {
    nothing_to_compact: 'There is nothing to summarise yet: the newest messages always stay as they are.',
    run_open:
      'An answer is being written, or waits for somebody. Compact once it is finished, or stop it first.',
    unavailable: 'No summary was written, and the chat is as it was. Try again in a moment.',
  },
  repeated:
    'Several lines have the same name: {{names}}. Change it in one of them, or join the lines; then you can save.',
  save: 'Save',
  fields: {
    goal: 'Goal',
    decisions: 'Decisions, one on each line',
    done: 'Done, one on each line',
    todo: 'To do, one on each line',
    facts: 'Facts, one on each line',
    openQuestions: 'Open questions, one on each line',
    toolsUsed: 'Tools used, one on each line',
    entities: 'Names and numbers, such as “port: 8080”, one on each line',
  },
};

declare module '../areas' {
  interface Areas {
    context: typeof context;
  }
}

export default context;
