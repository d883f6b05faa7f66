// @ts-check
// Decisions that a seed makes. Each thing that decides has a source of its own, named after what it decides
// about, so that what happens in one place changes nothing in another.

export class Random {
  #state;

  /** @param {...(string | number)} names of the source, the seed first */
  constructor(...names) {
    this.names = names;
    this.#state = hashOf(names.join('/'));
  }

  /** @param {...(string | number)} names */
  fork(...names) {
    return new Random(...this.names, ...names);
  }

  /** From 0, below 1. */
  next() {
    // Mulberry32.
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0, below the limit. @param {number} limit */
  below(limit) {
    return Math.floor(this.next() * limit);
  }

  /** @param {number} share the probability of `true` */
  chance(share) {
    return this.next() < share;
  }

  /**
   * @template T
   * @param {readonly T[]} things
   * @returns {T}
   */
  pick(things) {
    return /** @type {T} */ (things[this.below(things.length)]);
  }
}

/**
 * FNV-1a, mixed once more because its low bits hardly differ for names that do.
 *
 * @param {string} text
 */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return hash ^ (hash >>> 13);
}
