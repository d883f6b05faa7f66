// @ts-check
// Packages from npm and PyPI, installed once, below the target folder. Each package has a folder of its own, as
// with npx and uvx, so that no package changes the dependencies of another one.

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const REPOSITORY = path.resolve(import.meta.dirname, '../..');
const CACHE = path.resolve(process.env.CARGO_TARGET_DIR ?? path.join(REPOSITORY, 'target'), 'mcp-servers');
/** The file that a complete folder contains. */
const MARK = '.installed';
const QUIET = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];

/**
 * A package, and the packages that are installed with it.
 *
 * @typedef {object} Package
 * @property {string} name
 * @property {string} version
 * @property {'npm' | 'PyPI'} registry
 * @property {string[]} requirements with their versions, in the form that the registry's client takes
 */

/**
 * @param {string} name
 * @param {string} version
 * @returns {Package}
 */
export const npm = (name, version) => ({
  name,
  version,
  registry: 'npm',
  requirements: [`${name}@${version}`],
});

/**
 * @param {string} name
 * @param {string} version
 * @param {...string} more requirements that the package itself does not state
 * @returns {Package}
 */
export const pypi = (name, version, ...more) => ({
  name,
  version,
  registry: 'PyPI',
  requirements: [`${name}==${version}`, ...more],
});

/**
 * Installs a package, unless it is installed.
 *
 * @param {Package} one
 * @returns {Promise<string>} the folder of its programs
 */
export async function install({ name, version, registry, requirements }) {
  const folder = path.join(CACHE, `${name.replaceAll('/', '+')}-${version}`);
  const mark = path.join(folder, MARK);
  const programs = path.join(folder, registry === 'npm' ? 'node_modules/.bin' : 'bin');
  const wanted = requirements.join('\n');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === wanted) return programs;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const run = promisify(execFile);
  try {
    if (registry === 'npm') {
      await run('npm', ['install', '--prefix', folder, ...QUIET, ...requirements]);
    } else {
      await run('python3', ['-m', 'venv', folder]);
      const pip = path.join(programs, 'pip');
      await run(pip, ['install', '--quiet', '--disable-pip-version-check', ...requirements]);
    }
  } catch (error) {
    const { stderr = '', message } = /** @type {Error & { stderr?: string }} */ (error);
    throw new Error(`${name} ${version} cannot be installed from ${registry}: ${stderr.trim() || message}`);
  }
  writeFileSync(mark, wanted);
  return programs;
}
