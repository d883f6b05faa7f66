// @ts-check
// Libraries that stand between the server and its machine: a clock that says another time, and a disk that fails. What each of them does
// is read from a file, so that it can change while the server runs.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** @param {() => string} find @param {string} missing */
function found(find, missing) {
  try {
    return { library: find() };
  } catch {
    if (process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(missing);
    return { missing };
  }
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-preload-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** The library that gives a process another date, or what is missing for it. */
export const clock = found(() => {
  // The program fails if an earlier process of the same number was killed and has left its semaphore behind.
  for (let tries = 1; ; tries += 1) {
    try {
      return execFileSync('faketime', ['-f', '+0d', 'printenv', 'LD_PRELOAD'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim();
    } catch (error) {
      if (tries === 50) throw error;
    }
  }
}, 'there is no faketime program');
const disk = found(() => {
  const library = path.join(folder, 'faulty-disk.so');
  const source = path.join(import.meta.dirname, 'faulty-disk.c');
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'], { stdio: 'pipe' });
  return library;
}, 'there is no C compiler for the disk that fails');

/** Why clocks and disks cannot be made to fail here; `undefined` if they can. */
export const NO_PRELOAD = clock.missing ?? disk.missing;

/** The machine of one server, whose clock and disk are right at first. */
export class Machine {
  #clock = path.join(mkdtempSync(path.join(folder, 'm-')), 'clock');
  #disk = path.join(path.dirname(this.#clock), 'disk');

  constructor() {
    this.setClock('+0');
    this.setDisk('well');
  }

  /** A command that becomes a program on this machine. Its clock for durations stays as it is. */
  get through() {
    return [
      'env',
      `LD_PRELOAD=${disk.library}:${clock.library}`,
      `FAULTY_DISK=${this.#disk}`,
      `FAKETIME_TIMESTAMP_FILE=${this.#clock}`,
      'FAKETIME_NO_CACHE=1',
      // Servers that are killed would leave it behind.
      'FAKETIME_DISABLE_SHM=1',
      'FAKETIME_DONT_FAKE_MONOTONIC=1',
    ];
  }

  /** @param {string} offset from the right time, as `faketime` takes it: `+25h` */
  setClock(offset) {
    writeFileSync(this.#clock, `${offset}\n`);
  }

  /** @param {'well' | 'full' | 'broken'} state */
  setDisk(state) {
    writeFileSync(this.#disk, state);
  }
}
