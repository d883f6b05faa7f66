// The sidebar, read from the tables of three files. A page that none of them names fails the build.

import type { StarlightUserConfig } from '@astrojs/starlight/types';
import path from 'node:path';
import { filesOf, idOf, read, titleOf } from './documents.ts';

/** A page as a table lists it. */
export interface Entry {
  id: string;
  file: string;
  label: string;
  /** The last column of the table. Pages that are named above the tables have none. */
  about: string | undefined;
}

export interface Group {
  /** The heading above the table. The pages above the first heading have none. */
  heading: string | undefined;
  entries: Entry[];
}

/** The pages that an index file links to, by heading. */
export function groupsOf(index: string): Group[] {
  const groups: Group[] = [{ heading: undefined, entries: [] }];
  for (const line of read(index).split('\n')) {
    const heading = /^## (.+)$/.exec(line)?.[1];
    if (heading !== undefined) groups.push({ heading, entries: [] });
    const about = /\| *([^|]+?) *\|$/.exec(line)?.[1];
    for (const [, text = '', url = ''] of line.matchAll(/\[([^\]]+)\]\(([^)#:]+\.md)\)/g)) {
      const file = path.posix.join(path.posix.dirname(index), url);
      const id = idOf(file);
      if (id === undefined || file === 'README.md') continue;
      const label = about === undefined || /^\d+$/.test(text) ? titleOf(file) : text;
      groups.at(-1)?.entries.push({ id, file, label, about });
    }
  }
  return groups.filter(({ entries }) => entries.length > 0);
}

export const GUIDE = groupsOf('docs/guide/README.md');
export const CONTRIBUTING = groupsOf('docs/contributing/README.md');
export const DECISIONS = groupsOf('docs/contributing/decisions/README.md');

const items = (groups: Group[]) =>
  groups.flatMap(({ entries }) => entries.map(({ id, label }) => ({ slug: id, label })));

export function sidebar(): StarlightUserConfig['sidebar'] {
  const named = new Set([GUIDE, CONTRIBUTING, DECISIONS].flatMap(items).map(({ slug }) => slug));
  for (const folder of ['docs/guide', 'docs/contributing']) {
    const missing = filesOf(folder).filter(
      (file) => !file.endsWith('README.md') && !named.has(idOf(file) ?? ''),
    );
    if (missing.length > 0) throw new Error(`no table of a README.md links to ${missing.join(', ')}`);
  }
  return [
    ...GUIDE.map(({ heading, entries }) =>
      heading === undefined
        ? items([{ heading, entries }])
        : { label: heading, items: items([{ heading, entries }]) },
    ).flat(),
    {
      label: 'Contributing',
      collapsed: true,
      items: [
        ...items(CONTRIBUTING).filter(({ slug }) => slug !== 'contributing/decisions'),
        {
          label: 'Decisions',
          collapsed: true,
          items: [{ slug: 'contributing/decisions', label: 'All decisions' }, ...items(DECISIONS)],
        },
      ],
    },
  ];
}
