// Spoken turns with real speech engines and a mock model: the server's audio is transcribed and compared with the
// displayed reply, also with a role in another language; and speech during a reply interrupts it. Only with
// CONSOLE_ENGINES=1, as set by `scripts/console spoken`: mock speech services produce no speech. Not for playback gaps,
// which a busy machine causes.
import { CHINESE, ENGLISH, POEM } from './mock-model.mjs';
import { expect, keep, listenToOutput, onlyIf, operator, soundSaid, test } from './support.mjs';

const wav = process.env.CONSOLE_WAV ?? '';
/** Text of the recording. */
const SAID = 'go somewhere and do something';
const state = (page) => page.locator('.head .badge[role=status]');
const replies = (page) => page.locator('.device.wrap');
const words = (page) => page.locator('.you.wrap');

onlyIf(test, process.env.CONSOLE_ENGINES === '1' && wav, 'a spoken turn needs real engines, and CONSOLE_ENGINES=1: run scripts/console spoken');
// The engines share the machine with the browser.
test.describe.configure({ timeout: 180_000 });

/** Returns the words of a text without punctuation; of Chinese, the characters. */
const wordsOf = (text) => text.toLowerCase().normalize('NFKD').match(/\p{Script=Han}|[\p{L}--\p{Script=Han}]+|\p{N}+/gv) ?? [];

/** Returns the share of these words that was transcribed. */
function partReadBack(said, heard) {
  const left = wordsOf(heard);
  const found = wordsOf(said).filter((word) => {
    const at = left.indexOf(word);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
  return found.length / wordsOf(said).length;
}

/** Returns the displayed text of these lines, without the speaker. */
const shown = async (lines) => (await lines.allTextContents()).map((line) => line.replace(/^[^:]*:\s*/, '')).join(' ');

/** Returns the transcript of a recording by the server's recogniser. */
async function recognise(recording) {
  const { status, body } = await operator('POST', '/api/services/test', { service: 'asr', recording });
  expect(status, body).toBe(200);
  const tested = JSON.parse(body);
  expect(tested.ok, tested.error).toBe(true);
  return tested.text;
}

/** Engines take some seconds to load. */
test.beforeAll(async ({ request }) => {
  const status = async () => (await (await request.get(`${process.env.HEARKEN_URL}/healthz`)).json()).status;
  await expect.poll(status, { timeout: 120_000, intervals: [500] }).toBe('ok');
});

/** Returns the newest stored turn. */
async function newestTurn() {
  const { status, body } = await operator('GET', '/api/history?limit=1');
  expect(status, body).toBe(200);
  return JSON.parse(body).turns[0]?.id;
}

/** Speaks the recording on Talk. Returns its transcript, the displayed reply, and the transcript of the spoken reply. */
async function speak(page) {
  const before = await newestTurn();
  await page.getByLabel('Automatic', { exact: true }).check();
  await page.getByRole('button', { name: 'Start listening' }).click();
  await expect(state(page)).toHaveText('speaking', { timeout: 60_000 });
  await expect(state(page)).toHaveText('listening', { timeout: 60_000 });
  const said = await shown(replies(page));
  await page.getByRole('button', { name: 'End conversation' }).click();
  const asked = await shown(words(page));
  // A turn is stored a moment after it has ended.
  await expect.poll(newestTurn, { timeout: 30_000 }).not.toBe(before);
  const heard = await recognise(await soundSaid(await newestTurn()));
  console.log(`asked: ${asked}\nshown: ${said}\nheard: ${heard}`);
  return { asked, said, heard };
}

test.beforeAll(() => keep('audio'));
test.afterAll(() => keep(null));

test('the spoken reply to a sentence is intelligible', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await open('talk');
  const { asked, said, heard } = await speak(page);
  expect(partReadBack(SAID, asked)).toBeGreaterThanOrEqual(0.7);
  expect(wordsOf(said)).toEqual(wordsOf(ENGLISH));
  expect(partReadBack(ENGLISH, heard)).toBeGreaterThanOrEqual(0.7);
  expect(await page.evaluate(() => window.loudest)).toBeGreaterThan(0.02);
  expect(faults).toEqual([]);
});

test('the spoken reply of a Chinese role to the same sentence is intelligible', async ({ page, open, faults }) => {
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

test('speech during a reply is heard and interrupts it', async ({ page, open, faults }) => {
  await open('talk');
  await page.getByLabel('Realtime').check();
  await page.getByLabel('Type a message').fill('Tell me a poem');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(state(page)).toHaveText('speaking', { timeout: 60_000 });
  await expect(replies(page).first()).toContainText(POEM.slice(0, 16), { timeout: 60_000 });
  // The recording starts with the microphone.
  await page.getByRole('button', { name: 'Start listening' }).click();
  await expect(words(page).nth(1)).toBeVisible({ timeout: 60_000 });
  const asked = await shown(words(page));
  console.log(`asked: ${asked}`);
  expect(partReadBack(SAID, asked)).toBeGreaterThanOrEqual(0.7);
  await page.getByRole('button', { name: 'End conversation' }).click();
  await page.getByRole('link', { name: 'Live' }).click();
  await expect(page.locator('article', { hasText: 'Tell me a poem' }).first()).toContainText('interrupted');
  expect(faults).toEqual([]);
});
