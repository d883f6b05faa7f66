// A chat as a Markdown document, to be read anywhere: what was said, the calls with their inputs and results, files and sources by
// their names. Reasoning is left out.

import { isToolPart, toolNameOf, type Message, type Part, type ToolPart } from './message';

/** The headings of the document. */
export interface Headings {
  title: string;
  user: string;
  assistant: string;
  call: (tool: string) => string;
}

export function markdownOf(messages: readonly Message[], headings: Headings): string {
  const sections = messages.flatMap(({ role, parts }) => {
    const said = parts.flatMap((part) => wordsOf(part, headings) ?? []);
    return said.length === 0 ? [] : [`## ${role === 'user' ? headings.user : headings.assistant}`, ...said];
  });
  return [`# ${lineOf(headings.title)}`, ...sections].join('\n\n') + '\n';
}

function wordsOf(part: Part, headings: Headings): string | undefined {
  if (isToolPart(part)) return callOf(part, headings);
  switch (part.type) {
    case 'text':
      return part.text.trim() === '' ? undefined : part.text.trim();
    case 'file':
      return `- ${lineOf(part.filename ?? part.mediaType)}`;
    case 'source-url':
      return `- ${lineOf(part.title ?? '')} <${part.url}>`;
    case 'source-document':
      return `- ${lineOf(part.title)}`;
    case 'step-start':
    case 'reasoning':
    case 'reasoning-file':
    case 'steering-message':
    case 'custom':
    default:
      return undefined;
  }
}

function callOf(part: ToolPart, { call }: Headings): string {
  const values = [part.input, part.state === 'output-available' ? part.output : part.errorText];
  const blocks = values.flatMap((value) => (value === undefined ? [] : blockOf(value)));
  return [`**${lineOf(call(toolNameOf(part)))}**`, ...blocks].join('\n\n');
}

/** A value as a block of code, whose fence is longer than any in it. */
function blockOf(value: unknown): string {
  const [language, text] =
    typeof value === 'string' ? ['', value] : ['json', JSON.stringify(value, undefined, 2)];
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

const lineOf = (text: string) => text.replace(/\s+/g, ' ').trim();
