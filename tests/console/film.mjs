// Films the way of a new user through the console: the first run, Home, Talk, a spoken turn and its timeline. Writes a trace of
// Playwright and a video into a folder, and prints how long each step took. Called by `scripts/console film`. Not a test.
import { chromium, expect } from '@playwright/test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import config from './playwright.config.mjs';
import { startVideo } from './video.mjs';

const [folder, log] = process.argv.slice(2);
const SIZE = { width: 1200, height: 760 };
/** For who watches; no part of a step. */
const TO_LOOK_MS = 1_500;
const PASSWORD = 'a password for the film';
const CODE = /\b\d{4}-\d{4}\b/;
const steps = [];

/** The code that the server writes in its log. */
async function code() {
  const line = () => readFileSync(log, 'utf8').split('\n').find((one) => one.includes('nobody has chosen a password')) ?? '';
  await expect.poll(line, { timeout: 20_000 }).toMatch(CODE);
  return CODE.exec(line())[0];
}

async function firstRun(page) {
  await page.goto('/console/');
  await page.getByLabel('Code from the log of the server').pressSequentially(await code());
  await page.getByLabel('New password', { exact: true }).pressSequentially(PASSWORD);
  await page.getByLabel('New password again').pressSequentially(PASSWORD);
  await page.getByRole('button', { name: /^Set the password/ }).click();
  await expect(page.locator('main h1')).toHaveText('Home');
}

async function home(page) {
  await expect(page.getByRole('region', { name: 'First steps' })).toBeVisible();
  await expect(page.getByText('Everything works.')).toBeVisible();
  await expect(page.getByText(/^Loading/)).toHaveCount(0);
}

async function talk(page) {
  await page.getByRole('navigation').getByRole('link', { name: 'Talk' }).click();
  await expect(page.locator('main h1')).toHaveText('Talk');
  await page.getByLabel('Automatic', { exact: true }).check();
}

async function spokenTurn(page) {
  await page.locator('input[type=file]').setInputFiles(process.env.CONSOLE_WAV);
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 30_000 });
  await expect(page.locator('.head .badge[role=status]')).toHaveText(/idle|listens/, { timeout: 30_000 });
}

async function timeline(page) {
  await page.getByRole('navigation').getByRole('link', { name: 'Live' }).click();
  const turn = page.locator('article').first();
  await expect(turn).toContainText(/\d+ % of the wait of/);
  await turn.getByRole('group').focus();
  await page.keyboard.press('ArrowRight');
  await expect(turn.locator('.told')).toHaveText(/\S/);
}

async function step(name, act, page) {
  const began = performance.now();
  await act(page);
  steps.push({ step: name, seconds: Number(((performance.now() - began) / 1_000).toFixed(1)) });
}

/** Goes the whole way, and leaves who watches time to look at each screen. */
async function walk(page) {
  await step('first run', firstRun, page);
  await step('Home', home, page);
  for (const [name, act] of [['Talk', talk], ['a spoken turn', spokenTurn], ['its timeline on Live', timeline]]) {
    await page.waitForTimeout(TO_LOOK_MS);
    await step(name, act, page);
  }
  await page.waitForTimeout(TO_LOOK_MS);
  const seconds = steps.reduce((sum, one) => sum + one.seconds, 0);
  console.table([...steps, { step: 'in all', seconds: Number(seconds.toFixed(1)) }]);
}

const browser = await chromium.launch(config.use.launchOptions);
try {
  const context = await browser.newContext({ baseURL: config.use.baseURL, viewport: SIZE, locale: 'en-GB' });
  await context.tracing.start({ screenshots: true, snapshots: true });
  const page = await context.newPage();
  const stopVideo = await startVideo(page, SIZE);
  try {
    await walk(page);
  } finally {
    // Of a walk that failed, both show why.
    writeFileSync(join(folder, 'film.webm'), await stopVideo());
    await context.tracing.stop({ path: join(folder, 'trace.zip') });
  }
} finally {
  await browser.close();
}
