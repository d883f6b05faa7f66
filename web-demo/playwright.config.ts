// The pages in a real browser, against the built binary (`FERMATA_BIN`), which carries them, and a model API
// that plays a script.
//
// `--project pages` and `--project firefox` are what has to pass, `--project bench` measures.
//
// FERMATA_CHROMIUM and FERMATA_FIREFOX name the browsers (./with-chromium and ./with-firefox find them).
// FERMATA_DEMO=dist serves the pages from web-demo/dist instead of the binary's own, so that a change needs no
// new binary. Firefox then bypasses its HTTP cache. FERMATA_PICTURES=1 rewrites the pictures of docs/pictures.

import { resolve } from 'node:path';
import { defineConfig, devices } from '@playwright/test';

const chromium = process.env['FERMATA_CHROMIUM'];
const hasFirefox = process.env['FERMATA_FIREFOX'] !== undefined;
const isCi = process.env['CI'] !== undefined;

const inChromium = {
  ...devices['Desktop Chrome'],
  contextOptions: { reducedMotion: 'reduce' as const },
  launchOptions: {
    ...(chromium !== undefined && { executablePath: chromium }),
    args: ['--no-sandbox'],
  },
};

// A stock Firefox, over WebDriver BiDi. It takes the preferences of a person from its profile.
const inFirefox = {
  browserName: 'firefox' as const,
  channel: 'moz-firefox',
  launchOptions: {
    executablePath: resolve(import.meta.dirname, 'tests/firefox.mjs'),
    firefoxUserPrefs: {
      'ui.prefersReducedMotion': 1,
      // A mouse: fine, and able to hover. A machine without a screen has none.
      'ui.primaryPointerCapabilities': 6,
      'ui.allPointerCapabilities': 6,
      'layout.css.prefers-color-scheme.content-override': 1,
      // No process is started in advance: each test would pay for one more.
      'dom.ipc.processPrelaunch.enabled': false,
    },
  },
};

/** What engines do differently: streams, reloads, tabs, cards, and tests with a tag. */
const ENGINE_TESTS = /(breaks|cards|tabs)\.spec\.ts|@engine/;

export default defineConfig({
  projects: [
    { name: 'pages', testDir: 'tests', testMatch: '**/*.spec.ts', use: inChromium },
    {
      name: 'firefox',
      testDir: 'tests',
      testMatch: hasFirefox ? '**/*.spec.ts' : [],
      grep: ENGINE_TESTS,
      use: inFirefox,
      // Its tabs are processes, and a test of seven tabs starts as many.
      timeout: 180_000,
      // Firefox can delay a request by 20 seconds, until another one has filled its cache. This must be shorter.
      expect: { timeout: 15_000 },
    },
    { name: 'bench', testDir: 'bench', testMatch: '**/*.bench.ts', use: inChromium },
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
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    colorScheme: 'light',
  },
});
