// Checks that a tag, the crates, the packages and the changelog have the same version, and prints the notes of the release.
//
//   node release/version.mjs v0.1.0

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { REPOSITORY } from './targets.mjs';

const ROOT = new URL('../', import.meta.url);
const PACKAGES = ['fermata-chat', 'fermata-server', 'create-fermata'];

/** @param {string} file */
const read = (file) => readFileSync(new URL(file, ROOT), 'utf8');

/** The version of the workspace, which is that of each crate. */
export function version() {
  const [, found] = /^\[workspace\.package\]\nversion = "(.+)"$/m.exec(read('Cargo.toml')) ?? [];
  if (found === undefined)
    throw new Error('Cargo.toml has no [workspace.package] that begins with a version');
  return found;
}

/** Returns the section of the changelog about a version, without its heading. @param {string} version */
export function notesOf(version) {
  const sections = read('CHANGELOG.md').split(/^## /m).slice(1);
  const section = sections.find((section) => section.split(/\s/, 1)[0] === version);
  return section?.slice(section.indexOf('\n')).trim();
}

/** Returns what does not fit the tag. @param {string} tag */
export function faultsOf(tag) {
  const expected = tag.replace(/^v/, '');
  const faults = [];
  if (!/^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$/.test(tag)) faults.push(`the tag is "${tag}"; it must be like v0.1.0`);
  if (version() !== expected) faults.push(`Cargo.toml has version ${version()}`);
  const repository = process.env.GITHUB_REPOSITORY;
  if (repository !== undefined && REPOSITORY !== `https://github.com/${repository}`)
    faults.push(`release/targets.mjs has ${REPOSITORY}, and this is ${repository}`);
  for (const name of PACKAGES) {
    const manifest = JSON.parse(read(`packages/${name}/package.json`));
    if (manifest.version !== expected)
      faults.push(`packages/${name}/package.json has version ${manifest.version}`);
  }
  const own = /^fermata-[a-z]+ = \{ .*path = .*\}$/gm;
  for (const [line] of read('Cargo.toml').matchAll(own))
    if (!line.includes(`version = "${expected}"`)) faults.push(`Cargo.toml has ${line}`);
  if (!notesOf(expected)) faults.push(`CHANGELOG.md has no section "## ${expected}"`);
  return faults;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tag = process.argv[2] ?? '';
  const faults = faultsOf(tag);
  for (const fault of faults) console.error(`release: ${fault}`);
  if (faults.length > 0) process.exit(1);
  console.log(notesOf(tag.slice(1)));
}
