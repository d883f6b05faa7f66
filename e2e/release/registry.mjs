// @ts-check
// An npm registry with packed packages, as they would be after a release. It sends npm to the registry of this machine for all others.

import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';

/**
 * @param {string} folder with the packed packages
 * @returns {Promise<{ url: string, close: () => void }>}
 */
export async function startRegistry(folder) {
  const elsewhere = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  /** @type {Map<string, { manifest: Record<string, unknown>, file: string }>} */
  const packages = new Map();
  for (const file of readdirSync(folder).filter((file) => file.endsWith('.tgz'))) {
    const inside = ['-xOzf', path.join(folder, file), 'package/package.json'];
    const manifest = JSON.parse(execFileSync('tar', inside, { encoding: 'utf8' }));
    packages.set(manifest.name, { manifest, file: path.join(folder, file) });
  }
  let url = '';
  const server = http.createServer((request, response) => {
    const [name = '', ...rest] = decodeURIComponent((request.url ?? '/').slice(1)).split('/-/');
    const found = packages.get(name);
    if (found === undefined) {
      // The platforms that this machine has no binary for.
      if (name.startsWith('fermata-server')) response.writeHead(404).end('{}');
      else response.writeHead(302, { location: new URL(request.url ?? '/', elsewhere).href }).end();
      return;
    }
    const { manifest, file } = found;
    if (rest.length > 0) {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(readFileSync(file));
      return;
    }
    const version = String(manifest['version']);
    const integrity = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
    const dist = { tarball: `${url}/${name}/-/${path.basename(file)}`, integrity };
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        name,
        'dist-tags': { latest: version },
        versions: { [version]: { ...manifest, dist } },
      }),
    );
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  url = `http://127.0.0.1:${address.port}`;
  return {
    url,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
