// The documentation for programs, as https://llmstxt.org describes it: an index with a line for each page, the guide in
// one file, and each page as Markdown.

import { addressOf, filesOf, read, resolve } from './documents.ts';
import { landing } from './landing.ts';
import { CONTRIBUTING, DECISIONS, GUIDE, type Entry, type Group } from './sidebar.ts';

/** With the address of the site if `astro build --site` names one. */
const addressOfPath = (path: string): string =>
  import.meta.env.SITE === undefined ? path : new URL(path, import.meta.env.SITE).href;

const addressOfMarkdown = (id: string): string =>
  addressOfPath(addressOf(id, import.meta.env.BASE_URL).replace(/\/$/, id === 'index' ? '/index.md' : '.md'));

export const allFiles = (): string[] => [
  'README.md',
  ...filesOf('docs/guide'),
  ...filesOf('docs/contributing'),
];

/** A file without the comments for those who edit it. Its links lead to the Markdown of the other pages. */
export function textOf(file: string): string {
  // Every second piece is a block of code.
  const pieces = read(file).split(/(^```[\s\S]*?^```$)/m);
  return pieces.map((piece, index) => (index % 2 === 1 ? piece : adapted(file, piece))).join('');
}

const adapted = (file: string, piece: string): string =>
  piece
    .replace(/^<!--.*-->\n+/gm, '')
    .replace(/\]\(([^)\s]+)\)/g, (_, url: string) => `](${resolve(file, url, addressOfMarkdown)})`);

export function index(): string {
  const line = ({ id, label, about }: Entry) =>
    `- [${label}](${addressOfMarkdown(id)})${about === undefined ? '' : `: ${plain(about)}`}`;
  const section = (heading: string, groups: Group[]) =>
    `## ${heading}\n\n${groups.flatMap(({ entries }) => entries.map(line)).join('\n')}\n`;
  return [
    `# Fermata\n\n> ${landing().hero.tagline}\n`,
    ...GUIDE.map((group) => section(group.heading ?? 'Start', [group])),
    section('Optional', [...CONTRIBUTING, ...DECISIONS]),
  ].join('\n');
}

/** The cells of a table may have links. A line of the index has one already. */
const plain = (cell: string): string => cell.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1');

/** The README and the guide. */
export const full = (): string =>
  ['README.md', ...GUIDE.flatMap(({ entries }) => entries.map(({ file }) => file))].map(textOf).join('\n\n');
