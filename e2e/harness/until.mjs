// @ts-check
// Waiting for a condition. The deadline only says when hope is lost; no test passes or fails by how long
// something took.

const DEADLINE = Number(process.env.FERMATA_E2E_DEADLINE_MS ?? 20_000);
const PAUSE = 5;

/**
 * Polls until `probe` gives something truthy and returns that.
 *
 * @template T
 * @param {() => T | Promise<T>} probe
 * @param {string | (() => string)} expectation what was waited for, completed by the caller with what is
 * there instead
 * @param {number} [patience] when hope is lost, in milliseconds
 * @returns {Promise<Exclude<Awaited<T>, null | undefined | false | 0 | ''>>}
 */
export async function until(probe, expectation, patience = DEADLINE) {
  const deadline = Date.now() + patience;
  for (;;) {
    const found = await probe();
    if (found) return /** @type {Exclude<Awaited<T>, null | undefined | false | 0 | ''>} */ (found);
    if (Date.now() > deadline) {
      throw new Error(`waited in vain for ${typeof expectation === 'string' ? expectation : expectation()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/**
 * A promise and the function that fulfils it, for tests that decide when the model goes on.
 *
 * @returns {{ opened: Promise<void>, open: () => void }}
 */
export function gate() {
  /** @type {() => void} */
  let open = () => {};
  const opened = new Promise((/** @type {(value: void) => void} */ resolve) => {
    open = resolve;
  });
  return { opened, open };
}
