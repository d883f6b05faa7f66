// What the pages say of memory, in English.

const memory = {
  used_one: '{{count}} memory used',
  used_other: '{{count}} memories used',
  usedLabel: 'Memories used for this answer',
  changes: 'What was done with memories',
  saved: 'Saved:',
  changed: 'Changed:',
  forgotten: 'Forgotten:',
  undo: 'Undo',
  undone: 'Undone',
  undoLabel: 'Undo “{{what}}”',
  manage: 'Manage memories',
  kind: {
    preference: 'Preference',
    fact: 'Fact',
    entity: 'Person or thing',
    instruction: 'Instruction',
  },
  page: {
    title: 'Memories',
    off: 'off',
    close: 'Close the memories',
    use: 'Use memory on this page',
    useHint:
      'While it is off, nothing that you send from this browser is remembered or answered from memory.',
    search: 'Search memories',
    searchHint: 'Search…',
    kinds: 'Kind of memories',
    all: 'All kinds',
    add: 'Add',
    export: 'Export',
    deleteAll: 'Delete all',
    list: 'Memories',
    loading: 'Loading memories…',
    failed: 'The memories could not be loaded.',
    empty: 'Nothing is remembered yet. Say “remember that …” in a chat, or add something here.',
    noMatch: 'No memory has to do with this.',
    more: 'Show older memories',
    deleted_one: '{{count}} memory was deleted.',
    deleted_other: '{{count}} memories were deleted.',
  },
  row: {
    pin: 'Pin “{{text}}”',
    pinHint: 'A pinned memory is never deleted to make room.',
    edit: 'Edit “{{text}}”',
    delete: 'Delete “{{text}}”',
    forgotten: 'Deleted',
    pinned: 'Pinned',
    slot: 'slot {{slot}}',
    fromChat: 'from a chat',
    fromTitle: 'from “{{title}}”',
    afterReading: 'after reading {{sources}}',
  },
  origin: {
    person: 'written by you',
    tool: 'written by the assistant',
    summary: 'noted from a chat',
  },
  form: {
    add: 'New memory',
    edit: 'Edit memory',
    text: 'Text',
    kind: 'Kind',
    slot: 'Slot (optional)',
    slotHint: 'A name such as “timezone”. There is one memory for each slot, and the model always knows it.',
    save: 'Save',
    cancel: 'Cancel',
  },
  deleteAll: {
    title: 'Delete all memories?',
    text_one: '{{count}} memory is deleted. This cannot be undone.',
    text_other: 'All {{count}} memories are deleted. This cannot be undone.',
    confirm: 'Delete all',
    cancel: 'Cancel',
  },
};

declare module '../areas' {
  interface Areas {
    memory: typeof memory;
  }
}

export default memory;
