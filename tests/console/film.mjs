// Records the steps of a new user, from scripts/run to a spoken turn: the first run, Home, the engines, Talk, a spoken
// reply and its timeline. Writes a Playwright trace and a video into a folder, prints the duration of each step, and
// fails if the total is too long. Called by `scripts/console film`, which starts scripts/run. Not a test.
import { chromium, expect as soon } from '@playwright/test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import config from './playwright.config.mjs';
import { listenToOutput } from './support.mjs';
import { startVideo } from './video.mjs';

const [folder, log, began] = process.argv.slice(2);
const SIZE = { width: 1200, height: 760 };
const LONGEST_S = 300;
/** Pause for viewers; counts towards the next step. */
const TO_LOOK_MS = 1_500;
const ENGINES_MS = 180_000;
const ANSWER_MS = 120_000;
/** Words of the recording. */
const SAID = /go somewhere/i;
/** Sample value that is certainly not noise. */
const LOUD = 0.02;
const PASSWORD = 'a password for the film';
const CODE = /\b\d{4}-\d{4}\b/;
// The engines load on the same machine.
const expect = soon.configure({ timeout: 30_000 });
const steps = [];

/** Returns the code from the server log. */
async function code() {
  const line = () => readFileSync(log, 'utf8').split('\n').find((one) => one.includes('no password is set')) ?? '';
  await expect.poll(line).toMatch(CODE);
  return CODE.exec(line())[0];
}

async function open(page) {
  await page.goto('/console/');
  await expect(page.getByLabel('Code from the server log')).toBeVisible();
}

async function firstRun(page) {
  await page.getByLabel('Code from the server log').pressSequentially(await code());
  await page.getByLabel('New password', { exact: true }).pressSequentially(PASSWORD);
  await page.getByLabel('Repeat new password').pressSequentially(PASSWORD);
  await page.getByRole('button', { name: /^Set password/ }).click();
  await expect(page.locator('main h1')).toHaveText('Home');
}

async function home(page) {
  await expect(page.getByRole('region', { name: 'First steps' })).toBeVisible();
  await expect(page.getByText(/^Loading/)).toHaveCount(0);
}

/** Home polls the server every 5 s. */
async function engines(page) {
  await expect(page.getByText('Everything works.')).toBeVisible({ timeout: ENGINES_MS });
}

async function talk(page) {
  await page.waitForTimeout(TO_LOOK_MS);
  await page.getByRole('navigation').getByRole('link', { name: 'Talk' }).click();
  await expect(page.locator('main h1')).toHaveText('Talk');
  await page.getByLabel('Automatic', { exact: true }).check();
}

/** Sends a recording and waits for the end of the reply. */
async function spokenTurn(page) {
  await page.waitForTimeout(TO_LOOK_MS);
  await page.locator('input[type=file]').setInputFiles(process.env.CONSOLE_WAV);
  await expect.poll(() => page.evaluate(() => window.loudest), { timeout: ANSWER_MS }).toBeGreaterThan(LOUD);
  await expect(page.locator('.device.wrap').first()).toBeVisible();
  await expect(page.locator('.head .badge[role=status]')).toHaveText(/idle|listening/, { timeout: ANSWER_MS });
}

async function timeline(page) {
  await page.waitForTimeout(TO_LOOK_MS);
  await page.getByRole('navigation').getByRole('link', { name: 'Live' }).click();
  const turn = page.locator('article').first();
  await expect(turn).toContainText(SAID);
  await expect(turn).toContainText('answered');
  await expect(turn).toContainText(/\d+% of the [\d.]+ m?s wait/);
  await turn.getByRole('group').focus();
  await page.keyboard.press('ArrowRight');
  await expect(turn.locator('.told')).toHaveText(/\S/);
}

const WAY = [
  ['scripts/run until the page is open', open], ['first run', firstRun], ['Home', home], ['engines ready', engines], ['Talk', talk],
  ['a spoken turn', spokenTurn], ['its timeline on Live', timeline],
];

/** Runs all steps, and prints the completed ones with the seconds since scripts/run was started. */
async function walk(page) {
  let before = 0;
  try {
    for (const [step, act] of WAY) {
      await act(page);
      const since = (Date.now() - Number(began)) / 1_000;
      steps.push({ step, seconds: Number((since - before).toFixed(1)), 'since the start': Number(since.toFixed(1)) });
      before = since;
    }
    await page.waitForTimeout(TO_LOOK_MS);
  } finally {
    console.table(steps);
  }
}

/** Records the steps. After a failure, both files show the cause. */
async function film(browser) {
  const context = await browser.newContext({ baseURL: config.use.baseURL, viewport: SIZE, locale: 'en-GB' });
  await context.tracing.start({ screenshots: true, snapshots: true });
  const page = await context.newPage();
  await listenToOutput(page);
  const stopVideo = await startVideo(page, SIZE);
  try {
    await walk(page);
  } finally {
    await context.tracing.stop({ path: join(folder, 'trace.zip') });
    writeFileSync(join(folder, 'film.webm'), await stopVideo());
  }
}

function judge() {
  const took = steps.at(-1)['since the start'];
  const built = readFileSync(log, 'utf8').includes('building hearken');
  if (built) console.log(`${took} s from scripts/run to a spoken turn and its timeline, a build of the server included: no limit holds for that`);
  else if (took > LONGEST_S) throw new Error(`${took} s from scripts/run to a spoken turn and its timeline, at most ${LONGEST_S}`);
  else console.log(`${took} s from scripts/run to a spoken turn and its timeline, of at most ${LONGEST_S}`);
}

const browser = await chromium.launch(config.use.launchOptions);
try {
  await film(browser);
  judge();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
}
