// The pages in a real browser, against the built binary (`FERMATA_BIN`), which carries them, and a model API
// that plays a script.
//
// `--project pages` is what has to pass, `--project bench` measures.
//
// FERMATA_CHROMIUM names the browser (./with-chromium finds one). FERMATA_DEMO=dist serves the pages from
// web-demo/dist instead of the binary's own, so that a change needs no new binary. FERMATA_PICTURES=1 writes
// the pictures of docs/pictures anew.

import { defineConfig, devices } from '@playwright/test';

const executablePath = process.env['FERMATA_CHROMIUM'];
const isCi = process.env['CI'] !== undefined;

export default defineConfig({
  projects: [
    { name: 'pages', testDir: 'tests', testMatch: '**/*.spec.ts' },
    { name: 'bench', testDir: 'bench', testMatch: '**/*.bench.ts' },
  ],
  // Each test has a server and a model API of its own, so any two may run side by side.
  fullyParallel: true,
  workers: 2,
  forbidOnly: isCi,
  reporter: 'list',
  // When hope is lost, on a machine with much else to do; no test is about how long something takes.
  timeout: 90_000,
  expect: { timeout: 20_000 },
  use: {
    ...devices['Desktop Chrome'],
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    colorScheme: 'light',
    contextOptions: { reducedMotion: 'reduce' },
    launchOptions: {
      ...(executablePath !== undefined && { executablePath }),
      args: ['--no-sandbox'],
    },
  },
});
