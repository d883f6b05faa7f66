// The platforms that a release is built for.

/** @type {{ target: string, platform: string, os: string, cpu: string, libc?: string }[]} */
export const TARGETS = [
  { target: 'x86_64-unknown-linux-gnu', platform: 'linux-x64', os: 'linux', cpu: 'x64', libc: 'glibc' },
  { target: 'aarch64-unknown-linux-gnu', platform: 'linux-arm64', os: 'linux', cpu: 'arm64', libc: 'glibc' },
  { target: 'aarch64-apple-darwin', platform: 'darwin-arm64', os: 'darwin', cpu: 'arm64' },
  { target: 'x86_64-apple-darwin', platform: 'darwin-x64', os: 'darwin', cpu: 'x64' },
];

export const REPOSITORY = 'https://github.com/fermata-chat/fermata';
