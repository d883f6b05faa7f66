// @ts-check
// A release of this platform as a tag makes it, except that the binary is the one under test: the archive with its checksum, the script
// that installs it, and the npm packages.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { TARGETS } from '../../release/targets.mjs';
import { version } from '../../release/version.mjs';
import { binary } from '../harness/server.mjs';
import { startRegistry } from './registry.mjs';

export const ROOT = path.resolve(import.meta.dirname, '../..');

/** The platform of this machine. */
export const HERE = TARGETS.find(
  ({ os: system, cpu }) => system === process.platform && cpu === process.arch,
);

/**
 * @typedef {object} Release
 * @property {string} version
 * @property {string} folder the files of the release
 * @property {string} packages the packed npm packages
 * @property {string} registry the address of an npm registry that has them
 * @property {() => void} close
 */

/** @returns {Promise<Release>} */
export async function packRelease() {
  if (HERE === undefined) throw new Error(`there is no release for ${process.platform}-${process.arch}`);
  const work = mkdtempSync(path.join(os.tmpdir(), 'fermata-release-'));
  const [folder, packages] = [path.join(work, 'files'), path.join(work, 'packages')];
  const inside = `fermata-${version()}-${HERE.target}`;
  mkdirSync(path.join(folder, inside), { recursive: true });
  cpSync(binary(), path.join(folder, inside, 'fermata'));
  // A debug build is ten times as large as a release.
  execFileSync('strip', [path.join(folder, inside, 'fermata')]);
  execFileSync(path.join(ROOT, 'release/archive'), [path.join(folder, inside)]);
  const sums = execFileSync('sh', ['-c', 'cat *.tar.gz.sha256'], { cwd: folder });
  writeFileSync(path.join(folder, 'SHA256SUMS'), sums);
  cpSync(path.join(ROOT, 'release/install.sh'), path.join(folder, 'install.sh'));
  execFileSync('node', [path.join(ROOT, 'release/npm.mjs'), folder, packages], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const registry = await startRegistry(packages);
  return {
    version: version(),
    folder,
    packages,
    registry: registry.url,
    close: () => {
      registry.close();
      rmSync(work, { recursive: true, force: true });
    },
  };
}
