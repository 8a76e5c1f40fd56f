// A spoken turn with real engines for speech and a model whose words are fixed: what the server sent is recognised, and compared
// with the answer that the page shows; a role of another language is heard; and a person who speaks while it answers is heard. Only
// where CONSOLE_ENGINES=1, which `scripts/console spoken` sets: stand-ins for speech say nothing. Not for gaps in what the page
// plays, which a busy machine makes.
import { CHINESE, ENGLISH, POEM } from './mock-model.mjs';
import { expect, keep, listenToOutput, onlyIf, operator, soundSaid, test } from './support.mjs';

const wav = process.env.CONSOLE_WAV ?? '';
/** What the recording says. */
const SAID = 'go somewhere and do something';
const state = (page) => page.locator('.head .badge[role=status]');
const replies = (page) => page.locator('.device.wrap');
const words = (page) => page.locator('.you.wrap');

onlyIf(test, process.env.CONSOLE_ENGINES === '1' && wav, 'a spoken turn needs real engines, and CONSOLE_ENGINES=1: run scripts/console spoken');
// The engines share the machine with the browser.
test.describe.configure({ timeout: 180_000 });

/** The words of a text, without marks; of Chinese, the characters. */
const wordsOf = (text) => text.toLowerCase().normalize('NFKD').match(/\p{Script=Han}|[\p{L}--\p{Script=Han}]+|\p{N}+/gv) ?? [];

/** The part of these words that was read back. */
function partReadBack(said, heard) {
  const left = wordsOf(heard);
  const found = wordsOf(said).filter((word) => {
    const at = left.indexOf(word);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
  return found.length / wordsOf(said).length;
}

/** What the page shows of both sides, without who says it. */
const shown = async (lines) => (await lines.allTextContents()).map((line) => line.replace(/^[^:]*:\s*/, '')).join(' ');

/** Lets the recogniser of the server hear a recording. */
async function recognise(recording) {
  const { status, body } = await operator('POST', '/api/services/test', { service: 'asr', recording });
  expect(status, body).toBe(200);
  const tested = JSON.parse(body);
  expect(tested.ok, tested.error).toBe(true);
  return tested.text;
}

/** Engines load for some seconds. */
test.beforeAll(async ({ request }) => {
  const status = async () => (await (await request.get(`${process.env.HEARKEN_URL}/healthz`)).json()).status;
  await expect.poll(status, { timeout: 120_000, intervals: [500] }).toBe('ok');
});

/** The newest turn that is kept. */
async function newestTurn() {
  const { status, body } = await operator('GET', '/api/history?limit=1');
  expect(status, body).toBe(200);
  return JSON.parse(body).turns[0]?.id;
}

/** Speaks the recording to Talk. Returns what was understood of it, what the page shows as the answer, and what is heard of that. */
async function speak(page) {
  const before = await newestTurn();
  await page.getByLabel('Automatic', { exact: true }).check();
  await page.getByRole('button', { name: 'Begin to listen' }).click();
  await expect(state(page)).toHaveText('speaks', { timeout: 60_000 });
  await expect(state(page)).toHaveText('listens', { timeout: 60_000 });
  const said = await shown(replies(page));
  await page.getByRole('button', { name: 'End the conversation' }).click();
  const asked = await shown(words(page));
  // A turn is stored a moment after it has ended.
  await expect.poll(newestTurn, { timeout: 30_000 }).not.toBe(before);
  const heard = await recognise(await soundSaid(await newestTurn()));
  console.log(`asked: ${asked}\nshown: ${said}\nheard: ${heard}`);
  return { asked, said, heard };
}

test.beforeAll(() => keep('audio'));
test.afterAll(() => keep(null));

test('what is answered to a spoken sentence can be understood again', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await open('talk');
  const { asked, said, heard } = await speak(page);
  expect(partReadBack(SAID, asked)).toBeGreaterThanOrEqual(0.7);
  expect(wordsOf(said)).toEqual(wordsOf(ENGLISH));
  expect(partReadBack(ENGLISH, heard)).toBeGreaterThanOrEqual(0.7);
  expect(await page.evaluate(() => window.loudest)).toBeGreaterThan(0.02);
  expect(faults).toEqual([]);
});

test('a role that answers in Chinese is heard, to the same sentence', async ({ page, open, faults }) => {
  await open('talk');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(state(page)).toHaveText('idle', { timeout: 15_000 });
  const device = encodeURIComponent(await page.evaluate(() => localStorage.getItem('hearken.device_id')));
  const added = await operator('POST', '/api/roles', { name: 'Chinese', language: 'zh' });
  expect(added.status, added.body).toBe(201);
  const { id } = JSON.parse(added.body);
  try {
    await page.goto(`/console/#/devices/${device}`);
    await page.getByLabel('Role', { exact: true }).selectOption('Chinese');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect(page.getByText('Saved.')).toBeVisible();
    await page.getByRole('link', { name: 'Talk' }).click();
    const { asked, said, heard } = await speak(page);
    expect(partReadBack(SAID, asked)).toBeGreaterThanOrEqual(0.7);
    expect(wordsOf(said)).toEqual(wordsOf(CHINESE));
    expect(partReadBack(CHINESE, heard)).toBeGreaterThanOrEqual(0.5);
  } finally {
    await operator('DELETE', `/api/roles/${id}`);
  }
  expect(faults).toEqual([]);
});

test('who speaks over an answer is heard, and it ends', async ({ page, open, faults }) => {
  await open('talk');
  await page.getByLabel('Realtime').check();
  await page.getByLabel('Write a sentence').fill('Tell me a poem');
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(state(page)).toHaveText('speaks', { timeout: 60_000 });
  await expect(replies(page).first()).toContainText(POEM.slice(0, 16), { timeout: 60_000 });
  // The recording begins with the microphone.
  await page.getByRole('button', { name: 'Begin to listen' }).click();
  await expect(words(page).nth(1)).toBeVisible({ timeout: 60_000 });
  const asked = await shown(words(page));
  console.log(`asked: ${asked}`);
  expect(partReadBack(SAID, asked)).toBeGreaterThanOrEqual(0.7);
  await page.getByRole('button', { name: 'End the conversation' }).click();
  await page.getByRole('link', { name: 'Live' }).click();
  await expect(page.locator('article', { hasText: 'Tell me a poem' }).first()).toContainText('interrupted');
  expect(faults).toEqual([]);
});
