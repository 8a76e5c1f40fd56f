// Configuration of the console's tests: Debian's Chromium with a recorded voice as its microphone, one worker. See
// README.md for the variables.
import { defineConfig } from '@playwright/test';

const server = process.env.HEARKEN_URL ?? 'http://127.0.0.1:9400';
const wav = process.env.CONSOLE_WAV ?? '';
const mockPort = process.env.CONSOLE_MOCK_PORT ?? '18081';
export const MOCK_URL = `http://127.0.0.1:${mockPort}`;
const ownPort = process.env.CONSOLE_OWN_PORT ?? '18080';
const own = process.env.CONSOLE_URL ? [] : [{ command: `node serve.mjs ${ownPort} ${server}`, url: `http://127.0.0.1:${ownPort}/console/`, reuseExistingServer: false }];

export default defineConfig({
  testDir: '.',
  testMatch: '*.spec.mjs',
  globalSetup: './log-in-once.mjs',
  workers: 1,
  timeout: 120_000,
  // A busy machine may draw one frame late; a real fault occurs twice.
  retries: 1,
  reporter: [['list']],
  // Pictures are taken only by `scripts/console compare`.
  updateSnapshots: process.env.CONSOLE_COMPARE === '1' ? 'all' : 'none',
  snapshotPathTemplate: '{testDir}/compared/{arg}{ext}',
  // Even another screen in the same frame differs by only 0.03.
  // Immediate on an idle machine, but takes seconds during a build.
  expect: { timeout: 20_000, toHaveScreenshot: { maxDiffPixelRatio: 0.002, animations: 'disabled', caret: 'hide' } },
  use: {
    baseURL: process.env.CONSOLE_URL ?? `http://127.0.0.1:${ownPort}`,
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox', '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
        '--autoplay-policy=no-user-gesture-required', ...(wav ? [`--use-file-for-fake-audio-capture=${wav}%noloop`] : []),
      ],
    },
    permissions: ['microphone'],
  },
  webServer: [...own, { command: `node serve.mjs ${mockPort} ${server} mock-turns`, url: `${MOCK_URL}/console/`, reuseExistingServer: false }],
});
