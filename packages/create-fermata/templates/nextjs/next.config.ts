import type { NextConfig } from 'next';

// In production, this is the address of Fermata at the time of the build.
const fermata = process.env.FERMATA_URL ?? 'http://127.0.0.1:4000';

const config: NextConfig = {
  output: 'standalone',
  rewrites: () =>
    Promise.resolve(
      ['/api/:path*', '/chat/tool-result'].map((source) => ({ source, destination: fermata + source })),
    ),
};

export default config;
