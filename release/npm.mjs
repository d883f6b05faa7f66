// Packs the npm packages of a release: one for each archive with a binary, the launcher that installs one of them, the client, and
// `npm create fermata`.
//
//   node release/npm.mjs <folder with the archives> <folder for the packages>

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { addCards } from '../packages/create-fermata/cards.mjs';
import { REPOSITORY, TARGETS } from './targets.mjs';
import { version } from './version.mjs';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const [archives = '', packed = ''] = process.argv.slice(2).map((folder) => path.resolve(folder));
if (packed === '') {
  console.error('usage: node release/npm.mjs <folder with the archives> <folder for the packages>');
  process.exit(2);
}

const VERSION = version();
const work = mkdtempSync(path.join(os.tmpdir(), 'fermata-npm-'));
mkdirSync(packed, { recursive: true });

/** @param {string} folder */
function pack(folder) {
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', packed], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** @param {string} folder @param {Record<string, unknown>} manifest */
function writeManifest(folder, manifest) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** @type {Record<string, string>} */
const optionalDependencies = {};
for (const { target, platform, os: system, cpu, libc } of TARGETS) {
  const name = `fermata-server-${platform}`;
  optionalDependencies[name] = VERSION;
  const inside = `fermata-${VERSION}-${target}`;
  const archive = path.join(archives, `${inside}.tar.gz`);
  if (!existsSync(archive)) {
    console.error(`npm: there is no ${path.basename(archive)}, so ${name} is not packed`);
    continue;
  }
  const folder = path.join(work, name);
  writeManifest(folder, {
    name,
    version: VERSION,
    description: `The Fermata server for ${platform}. Install fermata-server instead.`,
    license: 'Apache-2.0 OR MIT',
    repository: { type: 'git', url: `git+${REPOSITORY}.git` },
    homepage: REPOSITORY,
    os: [system],
    cpu: [cpu],
    ...(libc !== undefined && { libc: [libc] }),
    preferUnplugged: true,
    files: ['fermata', 'LICENSE-*'],
  });
  const files = ['fermata', 'LICENSE-APACHE', 'LICENSE-MIT'].map((file) => `${inside}/${file}`);
  execFileSync('tar', ['-xzf', archive, '-C', folder, '--strip-components=1', ...files]);
  pack(folder);
}

for (const name of ['fermata-server', 'fermata-chat', 'create-fermata']) {
  const folder = path.join(work, name);
  cpSync(path.join(ROOT, 'packages', name), folder, {
    recursive: true,
    filter: (file) => path.basename(file) !== 'node_modules',
  });
  for (const license of ['LICENSE-APACHE', 'LICENSE-MIT'])
    cpSync(path.join(ROOT, license), path.join(folder, license));
  // Coding agents read them beside the code. The pages refer to each other.
  if (name === 'fermata-chat')
    cpSync(path.join(ROOT, 'docs/guide'), path.join(folder, 'docs'), {
      recursive: true,
      filter: (file) => !path.extname(file) || file.endsWith('.md'),
    });
  if (name === 'create-fermata') addCards(folder);
  const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  if (name === 'fermata-server') writeManifest(folder, { ...manifest, optionalDependencies });
  pack(folder);
}
rmSync(work, { recursive: true });
