// Prints the Homebrew formula of a release.
//
//   node release/formula.mjs <SHA256SUMS>

import { readFileSync } from 'node:fs';
import { REPOSITORY, TARGETS } from './targets.mjs';
import { version } from './version.mjs';

const VERSION = version();
const sums = readFileSync(process.argv[2] ?? '', 'utf8');

/** @param {string} os @param {string} cpu */
function source(os, cpu) {
  const { target } = TARGETS.find((one) => one.os === os && one.cpu === cpu) ?? {};
  const archive = `fermata-${VERSION}-${target}.tar.gz`;
  const sum = sums
    .split('\n')
    .find((line) => line.endsWith(` ${archive}`))
    ?.split(' ')[0];
  if (sum === undefined) return undefined;
  return `url "${REPOSITORY}/releases/download/v${VERSION}/${archive}"\n      sha256 "${sum}"`;
}

/** @param {string} name @param {string} os */
function system(name, os) {
  const cpus = [
    ['on_arm', source(os, 'arm64')],
    ['on_intel', source(os, 'x64')],
  ].filter(([, source]) => source !== undefined);
  const blocks = cpus.map(([cpu, source]) => `    ${cpu} do\n      ${source}\n    end\n`);
  return blocks.length === 0 ? '' : `\n  ${name} do\n${blocks.join('')}  end\n`;
}

console.log(`class Fermata < Formula
  desc "Chat server for the AI SDK that holds a tool call until it is answered"
  homepage "${REPOSITORY}"
  version "${VERSION}"
  license any_of: ["Apache-2.0", "MIT"]
${system('on_macos', 'darwin')}${system('on_linux', 'linux')}
  def install
    bin.install "fermata"
    generate_completions_from_executable(bin/"fermata", "completions")
    (man1/"fermata.1").write Utils.safe_popen_read(bin/"fermata", "man")
  end

  service do
    run [opt_bin/"fermata"]
    working_dir var/"fermata"
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/fermata --version")
  end
end`);
