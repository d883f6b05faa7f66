// The first page is the README. Its first paragraph becomes the line below the name.

import { read } from './documents.ts';

/** What the first page has besides its text. */
export function landing() {
  const [, paragraph] = /^# .+\n\n((?:.+\n)+)/m.exec(read('README.md')) ?? [];
  if (paragraph === undefined) throw new Error('README.md does not begin with a heading and a paragraph');
  return {
    hero: {
      tagline: paragraph.trim().replace(/\s+/g, ' ').replaceAll('`', ''),
      actions: [
        { text: 'Quick start', link: 'guide/quick-start/', icon: 'right-arrow' },
        { text: 'How it works', link: 'guide/how-it-works/', variant: 'minimal' },
      ],
    },
  };
}
