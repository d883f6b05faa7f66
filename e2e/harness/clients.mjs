// @ts-check
// The clients that the server is tried with: versions of npm's `ai`, installed side by side, each under a
// name of its own. Of every major version that is served there are two: the newest one, and an old one that
// refuses what it does not know.

/** @typedef {5 | 6 | 7} Version what a client says in `fermata.client` */
/**
 * @typedef {object} Client
 * @property {string} package its version
 * @property {Version} profile that it asks for
 * @property {boolean} isOld whether it is the older one of its major version
 */

/** @type {Version[]} */
export const VERSIONS = [5, 6, 7];

/** All of them, oldest first. */
/** @type {Client[]} */
export const CLIENTS = [
  { package: '5.0.100', profile: 5, isOld: true },
  { package: '5.0.277', profile: 5, isOld: false },
  { package: '6.0.100', profile: 6, isOld: true },
  { package: '6.0.326', profile: 6, isOld: false },
  { package: '7.0.20', profile: 7, isOld: true },
  { package: '7.0.173', profile: 7, isOld: false },
];

/**
 * @param {Version} profile
 * @returns {Client}
 */
export function newestOf(profile) {
  const client = CLIENTS.findLast((client) => client.profile === profile);
  if (client === undefined) throw new Error(`no client of version ${profile} is installed`);
  return client;
}

/**
 * @param {Client} client
 * @returns {Promise<any>} the package
 */
export const load = async (client) => import(`ai-${client.package}`);
