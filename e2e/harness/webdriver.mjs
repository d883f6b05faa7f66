// @ts-check
// WebKitGTK with its WebDriver, on a display of its own. Elements are found by XPath. An action waits until its element is there.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from './ports.mjs';
import { until } from './until.mjs';

const DISPLAY = 'Xvfb';
const DRIVER = 'WebKitWebDriver';

/** The key of an element in WebDriver's JSON. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

/** WebDriver's code of the Enter key. */
export const ENTER = '\uE007';

/** The missing program and its package, if one is missing. */
export const NO_WEBKIT = [
  [DRIVER, 'webkit2gtk-driver'],
  [DISPLAY, 'xvfb'],
]
  .filter(([program = '']) => !has(program))
  .map(([program, of]) => `${program} is missing (Debian's package ${of})`)
  .at(0);

/** @param {string} program */
function has(program) {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} options
 */
function run(program, args, options) {
  const child = spawn(program, args, options);
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

export class WebKit {
  #session;
  #processes;

  /**
   * @param {string} session its URL
   * @param {import('node:child_process').ChildProcess[]} processes
   */
  constructor(session, processes) {
    this.#session = session;
    this.#processes = processes;
  }

  static async start() {
    // It chooses a free display and writes its number.
    const display = run(DISPLAY, ['-displayfd', '1', '-screen', '0', '1280x900x24', '-nolisten', 'tcp'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    if (display.stdout === null) throw new Error(`${DISPLAY} has no output`);
    const [number] = await once(display.stdout, 'data');
    const port = await freePort();
    const driver = run(DRIVER, [`--port=${port}`], {
      stdio: 'ignore',
      env: { ...process.env, DISPLAY: `:${String(number).trim()}`, LANG: 'en_GB.UTF-8', NO_AT_BRIDGE: '1' },
    });
    const url = `http://127.0.0.1:${port}`;
    await until(
      () =>
        fetch(`${url}/status`).then(
          (response) => response.ok,
          () => false,
        ),
      `${DRIVER} to answer`,
    );
    const { sessionId } = await ask('POST', `${url}/session`, { capabilities: {} });
    return new WebKit(`${url}/session/${sessionId}`, [driver, display]);
  }

  async stop() {
    await ask('DELETE', this.#session);
    for (const child of this.#processes) child.kill();
  }

  /** @param {string} url */
  async open(url) {
    await this.#post('url', { url });
  }

  async reload() {
    await this.#post('refresh', {});
  }

  /** @returns {Promise<Buffer>} the picture of the page */
  async screenshot() {
    return Buffer.from(await ask('GET', `${this.#session}/screenshot`), 'base64');
  }

  /**
   * Runs the body of a function in the page.
   *
   * @param {string} script in which `arguments[0]` is the element, if there is a path
   * @param {string} [path] of the element
   * @returns {Promise<any>}
   */
  async run(script, path) {
    const args = path === undefined ? [] : [{ [ELEMENT]: await this.#find(path) }];
    return this.#post('execute/sync', { script, args });
  }

  /** @param {string} path */
  async sees(path) {
    await this.#find(path);
  }

  /**
   * Presses a button by script. WebDriver's own click is at a point, and misses a button that moves while an answer grows.
   *
   * @param {string} path
   */
  async click(path) {
    await this.run('arguments[0].click()', path);
  }

  /** @param {string} path @param {string} text */
  async type(path, text) {
    await this.#post(`element/${await this.#find(path)}/value`, { text });
  }

  /** @param {string} path @returns {Promise<string>} the id of the first shown element, once there is one */
  async #find(path) {
    return until(async () => {
      const found = await this.#post('elements', { using: 'xpath', value: path });
      for (const one of found) {
        const id = one[ELEMENT];
        if (await ask('GET', `${this.#session}/element/${id}/displayed`).catch(() => false)) return id;
      }
      return undefined;
    }, `the element ${path}`);
  }

  /** @param {string} command @param {object} body */
  #post(command, body) {
    return ask('POST', `${this.#session}/${command}`, body);
  }
}

/**
 * @param {string} method
 * @param {string} url
 * @param {object} [body]
 * @returns {Promise<any>} the value of the answer
 */
async function ask(method, url, body) {
  const response = await fetch(url, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const { value } = /** @type {{ value: any }} */ (await response.json());
  if (!response.ok) throw new Error(`${method} ${url}: ${value.error}: ${value.message}`);
  return value;
}
