// Which files of the repository are pages, and where their links lead. It knows nothing of Astro.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

/** The home of the repository, for links to files that are not pages. */
export const REPOSITORY = 'https://github.com/fermata-chat/fermata';

/** The folder of the repository. Everything is built in `docs/site`. */
export const ROOT = path.resolve('../..');

/** The files that are pages, as globs below `ROOT`. */
export const PATTERNS = ['README.md', 'docs/guide/*.md', 'docs/contributing/**/*.md'];

/**
 * The id of a page, which is its path on the site without slashes at its ends: `docs/guide/rules.md` is `guide/rules`.
 * A file that is not a page has none.
 *
 * @param file relative to `ROOT`
 */
export function idOf(file: string): string | undefined {
  if (file === 'README.md') return 'index';
  const [, name] = /^docs\/((?:guide\/[^/]+|contributing\/.+))\.md$/.exec(file) ?? [];
  return name?.replace(/\/README$/, '');
}

/** All pages below a folder of `docs`, relative to `ROOT`. */
export const filesOf = (folder: string): string[] =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => path.posix.join(folder, name))
    .filter((file) => idOf(file) !== undefined)
    .sort();

/** @param file relative to `ROOT` */
export const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');

/** The text of the first heading, without its marks. */
export function titleOf(file: string): string {
  const title = /^# (.+)$/m.exec(read(file))?.[1];
  if (title === undefined)
    throw new Error(`${file} has no heading that begins with "# ", so its page has no title`);
  return title.replaceAll('`', '');
}

/** The path of a page on a site whose root is `base`. */
export const addressOf = (id: string, base: string): string =>
  `${base.replace(/\/$/, '')}/${id === 'index' ? '' : `${id}/`}`;

/**
 * Where a link of a Markdown file leads: to a page of the site, or to a file in the repository.
 *
 * @param file the file with the link, relative to `ROOT`
 * @param page makes the address of a page from its id
 */
export function resolve(file: string, url: string, page: (id: string) => string): string {
  if (/^([a-z][a-z+.-]*:|#|\/)/i.test(url)) return url;
  const [, relative = '', anchor = ''] = /^([^#]*)(#.*)?$/.exec(url) ?? [];
  const target = path.posix.join(path.posix.dirname(file), decodeURI(relative));
  const there = path.join(ROOT, target);
  if (!existsSync(there)) throw new Error(`${file} links to ${url}, but there is no ${target}`);
  const id = idOf(target);
  if (id !== undefined) return page(id) + anchor;
  return `${REPOSITORY}/${statSync(there).isDirectory() ? 'tree' : 'blob'}/main/${target}${anchor}`;
}
