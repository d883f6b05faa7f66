// @ts-check
// docs/guide/clients.md, written from findings. Only the way to name a version is stated here and not
// found out.

import { CLIENTS, VERSIONS } from './clients.mjs';

/** The length of a line. */
const WIDTH = 130;

/** @typedef {import('./findings.mjs').Findings} Findings */
/** @typedef {import('./findings.mjs').Finding} Finding */
/** @typedef {import('./clients.mjs').Client} Client */

const HEAD = `# Clients

<!-- Written by e2e/tests/matrix.test.mjs; the head of that file says how. -->

Send the version of the \`ai\` package that your page uses, once, where you create the transport. A bare \`5\`, \`6\` or \`7\`
selects the features of the oldest release of that version:

\`\`\`ts
new DefaultChatTransport({ api: '/api/chat', body: { fermata: { client: '7.0.173' } } })
\`\`\`

The server cannot detect the version in another way. A client that receives an unknown chunk ends the chat with an error. Without a
version, the server uses its setting \`FERMATA_CLIENT\`, which is 6 by default.`;

const BEFORE_TABLE = `## The table

A test ran each line with each version of the package against the built server, with the AI SDK's own helpers as
\`sendAutomaticallyWhen\`. After each run the page showed the stored chat, part by part, and had sent only the requests of the line.
"yes" means: as the AI SDK describes it. The numbers refer to the notes below.`;

/**
 * The page.
 *
 * @param {Findings} findings
 * @returns {string}
 */
export function clientsPage(findings) {
  const notes = new Notes();
  const table = tableOf(findings, notes);
  return (
    [HEAD, BEFORE_TABLE, table, '## Notes', notes.list, '## Chunks', sentOf(findings)].join('\n\n') + '\n'
  );
}

/** The notes, numbered in the order of their appearance. */
class Notes {
  /** @type {string[]} */
  #notes = [];

  /** @param {Finding} finding */
  cell({ cell, note }) {
    if (note === undefined) return cell;
    if (!this.#notes.includes(note)) this.#notes.push(note);
    return `${cell} (${this.#notes.indexOf(note) + 1})`;
  }

  get list() {
    return this.#notes.map((note, index) => wrapped(`${index + 1}. ${note}`, '    ')).join('\n');
  }
}

/**
 * Words in lines of a length that is easy to read in an editor.
 *
 * @param {string} words
 * @param {string} indent of every line but the first
 */
function wrapped(words, indent) {
  const lines = [''];
  // A piece of code is not torn apart.
  for (const word of words.match(/(?:`[^`]*`|[^\s`])+/g) ?? []) {
    const line = lines.at(-1) ?? '';
    if (line.length + word.length >= WIDTH) lines.push(`${indent}${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}

/**
 * @param {Findings} findings
 * @param {Notes} notes
 */
function tableOf(findings, notes) {
  const rows = [
    row(['', ...CLIENTS.map((client) => client.package)]),
    row(['---', ...CLIENTS.map(() => '---')]),
  ];
  for (const { title, capabilities } of findings.groups) {
    rows.push(row([`**${title}**`, ...CLIENTS.map(() => '')]));
    for (const capability of capabilities) {
      rows.push(
        row([capability.name, ...CLIENTS.map((client) => notes.cell(findings.of(capability, client)))]),
      );
    }
  }
  return rows.join('\n');
}

/** @param {string[]} cells */
const row = (cells) => `| ${cells.join(' | ')} |`.replaceAll(/ +/g, ' ');

/**
 * Which chunks and fields the clients of each major version were sent.
 *
 * @param {Findings} findings
 */
function sentOf(findings) {
  const byVersion = VERSIONS.map((version) => ({ version, sent: merged(findings, version) }));
  const types = [...new Set(byVersion.flatMap(({ sent }) => [...sent.keys()]))].sort();
  const everywhere = types.filter((type) => byVersion.every(({ sent }) => sent.has(type)));
  const lines = [
    wrapped(`In these runs clients of every version received ${list(everywhere)}. In addition:`, ''),
    '',
  ];
  for (const { version, sent } of byVersion) {
    const own = types.filter((type) => sent.has(type) && !everywhere.includes(type));
    const fields = everywhere.flatMap((type) => {
      const known = [...(sent.get(type) ?? [])].filter((field) =>
        byVersion.some((other) => !other.sent.get(type)?.has(field)),
      );
      return known.map((field) => `${type}.${field}`);
    });
    lines.push(wrapped(`- version ${version}: ${list([...own, ...fields.sort()]) || 'nothing'}`, '  '));
  }
  return lines.join('\n');
}

/**
 * @param {Findings} findings
 * @param {import('./clients.mjs').Version} version
 * @returns {import('./findings.mjs').Sent}
 */
function merged(findings, version) {
  const result = new Map();
  for (const client of CLIENTS.filter(({ profile }) => profile === version)) {
    for (const [type, fields] of findings.sentTo(client)) {
      result.set(type, new Set([...(result.get(type) ?? []), ...fields]));
    }
  }
  return result;
}

/** @param {string[]} words */
const list = (words) => words.map((word) => `\`${word}\``).join(', ');
