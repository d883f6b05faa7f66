// What the pages say of what is going on: the line above the composer, plans, details of a call, in English.

const runs = {
  planning: 'Making a plan…',
  thinking: 'Working…',
  writing: 'Writing…',
  'reading-results': 'Reading the results…',
  'waits-for-people': 'Waiting for other people',
  'waits-for-you': 'Waiting for you',
  'waits-for-page': 'Waiting for a page that has this tool',
  'waits-for-capacity': 'Waiting for its turn: the server is busy',
  running_one: 'Running {{tools}}',
  running_other: 'Running {{count}} tools: {{tools}}',
  resource: {
    here: 'Waiting for {{resource}} (another call of this chat uses it)',
    elsewhere: 'Waiting for {{resource}} (held by another chat)',
  },
  answerAbove: 'Answer above. Any other message cancels it.',
  answerInMessage: 'Answer above, or write your answer below.',
  answerBoth: 'Answer above, or reply “{{word}}”. Any other message answers the question.',
  answerInWords: 'Answer above, or reply “{{word}}”. Any other message cancels it.',
  'waits-for-network': 'Waiting for the network',
  unsent: 'Waits for the network. It is sent as soon as the server can be reached.',
  reply: {
    title: 'Approve, deny, or send as a message?',
    text_one: 'A call of {{tools}} waits for your decision. A message cancels it.',
    text_other: '{{count}} calls wait for your decision: {{tools}}. A message cancels them.',
    unseen: 'Part of an input is hidden. Show all of it before you approve.',
    approve: 'Approve',
    deny: 'Deny',
    send: 'Send as a message',
  },
  notification: {
    title: 'Fermata waits for you',
    text_one: 'One question is open.',
    text_other: '{{count}} questions are open.',
    on: 'Notify me when something waits for me',
    blocked: 'The browser blocks notifications of this page.',
  },
  plan: {
    label: 'Plan',
    progress_one: '{{done}} of {{count}} step',
    progress_other: '{{done}} of {{count}} steps',
    after: 'after {{steps}}',
    goal: 'Goal',
    stepLabel: 'Step {{number}}',
    up: 'Move step {{number}} up',
    down: 'Move step {{number}} down',
    remove: 'Remove step {{number}}',
    add: 'Add a step',
    drop: 'Drop plan',
    continued: 'Continued below',
    state: {
      proposed: 'Waits for your decision',
      accepted: 'In progress',
      denied: 'Not followed',
      done: 'Done',
    },
    step: { todo: 'To do', doing: 'In progress', done: 'Done', failed: 'Failed', skipped: 'Left out' },
  },
  details: {
    edit: 'Changes',
    run: 'Runs',
    send: 'Sends',
    info: 'Does',
    difference: 'The difference, line by line',
    added: 'Added',
    removed: 'Removed',
  },
  followed: {
    retry: 'it was tried again',
    go_on: 'the model went on without it',
    ask_person: 'you were asked what to do',
    fail_run: 'it ended the answer',
  },
  inPlaceOf: 'in place of {{tool}}',
  replacedBy: '{{tool}} was called in its place',
  retry: 'Try again',
  retriedAs: 'It was tried again.',
  showRetry: 'Show the new call',
  retryLabel: 'Try again: {{name}}',
  cancel: 'Cancel',
  cancelLabel: 'Cancel {{name}}',
  refused: {
    plan_run_open: 'An answer is being written, or waits for somebody. Stop it first, then drop the plan.',
    not_running: 'It does not run any more.',
    not_failed: 'It has not failed, so there is nothing to try again.',
    already_retried: 'It was already tried again. The new call is further down in the chat.',
    run_open: 'An answer is being written, or waits for somebody. Try again once it is finished.',
  },
};

declare module '../areas' {
  interface Areas {
    runs: typeof runs;
  }
}

export default runs;
