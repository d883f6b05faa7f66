// A chat as a Markdown document.

import { expect, it } from 'vitest';
import { markdownOf } from '../markdownOf';
import type { Message } from '../message';

const HEADINGS = {
  title: 'Tea\n today',
  user: 'You',
  assistant: 'Assistant',
  call: (tool: string) => `Call ${tool}`,
};
const of = (...messages: Pick<Message, 'role' | 'parts'>[]) =>
  markdownOf(
    messages.map((message, at) => ({ id: String(at), ...message })),
    HEADINGS,
  );

it('has what was said, in order, and no reasoning', () => {
  const document = of(
    { role: 'user', parts: [{ type: 'text', text: 'Which *tea*?' }] },
    {
      role: 'assistant',
      parts: [
        { type: 'step-start' },
        { type: 'reasoning', text: 'Green or black?' },
        { type: 'text', text: 'Green.' },
        { type: 'source-url', sourceId: 's', url: 'https://tea.example/', title: 'Tea' },
      ],
    },
  );
  expect(document).toBe(
    '# Tea today\n\n## You\n\nWhich *tea*?\n\n## Assistant\n\nGreen.\n\n- Tea <https://tea.example/>\n',
  );
});

it('has calls with what went in and what came out', () => {
  const call = { type: 'tool-write_note', toolCallId: 'c', input: { title: 'Milk' } } as const;
  const document = of({
    role: 'assistant',
    parts: [
      { ...call, state: 'output-available', output: 'saved as ```1```' },
      { ...call, state: 'output-error', errorText: 'disk full' },
      { ...call, state: 'input-available' },
    ],
  });
  expect(document).toBe(
    [
      '# Tea today',
      '## Assistant',
      '**Call write_note**',
      '```json\n{\n  "title": "Milk"\n}\n```',
      '````\nsaved as ```1```\n````',
      '**Call write_note**',
      '```json\n{\n  "title": "Milk"\n}\n```',
      '```\ndisk full\n```',
      '**Call write_note**',
      '```json\n{\n  "title": "Milk"\n}\n```\n',
    ].join('\n\n'),
  );
});

it('leaves out a message that says nothing', () => {
  expect(of({ role: 'assistant', parts: [{ type: 'step-start' }] })).toBe('# Tea today\n');
});
