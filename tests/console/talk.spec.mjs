// The page as a device against a real server: a typed turn, a spoken turn in each mode, a file as microphone,
// interruption, tools of the page, the three framings, and use without a secure context. The model of the tests calls
// the lamp.
import { expect, listenToOutput, operator, test } from './support.mjs';

const wav = process.env.CONSOLE_WAV ?? '';
const state = (page) => page.locator('.head .badge[role=status]');
const replies = (page) => page.locator('.device.wrap');
const words = (page) => page.locator('.you.wrap');

/** Waits for the end of a reply. */
async function answered(page, atLeast = 1) {
  await expect(replies(page).nth(atLeast - 1)).toBeVisible({ timeout: 20_000 });
  await expect(state(page)).toHaveText(/idle|listening/, { timeout: 30_000 });
}

test('a typed message is answered with text and audio, and a tool turns on the lamp', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await open('talk');
  await page.getByText('Details and frames').click();
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(page.locator('.frames pre', { hasText: '"tools":[' })).toBeVisible({ timeout: 15_000 });
  await page.getByLabel('Type a message').fill('Turn on the lamp');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(words(page)).toHaveText(/Turn on the lamp/);
  await answered(page);
  await expect(words(page)).toHaveCount(1);
  await expect(page.locator('.lamp')).toHaveAttribute('data-on', 'true');
  await expect(page.getByText('Called: self.lamp.turn_on')).toBeVisible();
  expect(await page.evaluate(() => window.loudest)).toBeGreaterThan(0.02);
  await page.getByRole('link', { name: 'Live' }).click();
  const turn = page.locator('article', { hasText: 'Turn on the lamp' }).first();
  await expect(turn).toContainText('answered');
  await expect(turn).toContainText(/\d+% of the [\d.]+ m?s wait/);
  expect(faults).toEqual([]);
});

test('messages right after a disconnect are answered', async ({ page, open, faults }) => {
  await open('talk');
  for (const round of [1, 2, 3]) {
    await page.getByLabel('Type a message').fill(`Turn on the lamp, round ${round}`);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await expect(words(page).nth(round - 1)).toHaveText(new RegExp(`round ${round}`));
    await answered(page, round);
    await page.getByRole('button', { name: 'Disconnect' }).click();
  }
  await expect(page.getByRole('alert')).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('a held button sends speech, which turns on the lamp and gets a spoken reply', async ({ page, open, faults }) => {
  test.skip(!wav, 'CONSOLE_WAV names no recording');
  await listenToOutput(page);
  await open('talk');
  await expect(page.locator('.lamp')).toHaveAttribute('data-on', 'false');
  const hold = page.getByRole('button', { name: /Hold to talk|Release/ });
  await hold.hover();
  await page.mouse.down();
  await expect(state(page)).toHaveText('listening', { timeout: 15_000 });
  await expect.poll(() => page.getByRole('meter', { name: 'You' }).evaluate((meter) => meter.value), { intervals: [30] }).toBeGreaterThan(0.3);
  await page.waitForTimeout(2_000);
  await page.mouse.up();
  await answered(page);
  await expect(words(page).first()).not.toHaveText(/^You: $/);
  await expect(page.locator('.lamp')).toHaveAttribute('data-on', 'true');
  await expect(page.getByText('Called: self.lamp.turn_on').first()).toBeVisible();
  await expect.poll(() => page.evaluate(() => window.loudest)).toBeGreaterThan(0.02);
  expect(faults).toEqual([]);
});

test('the space bar holds the button', async ({ page, open, faults }) => {
  test.skip(!wav, 'CONSOLE_WAV names no recording');
  await open('talk');
  await page.keyboard.down('Space');
  await expect(state(page)).toHaveText('listening', { timeout: 15_000 });
  await page.waitForTimeout(2_000);
  await page.keyboard.up('Space');
  await answered(page);
  expect(faults).toEqual([]);
});

for (const mode of ['Automatic', 'Realtime']) {
  test(`${mode}: the server detects the end of speech`, async ({ page, open, faults }) => {
    test.skip(!wav, 'CONSOLE_WAV names no recording');
    await open('talk');
    await page.getByLabel(mode).check();
    await page.getByRole('button', { name: 'Start listening' }).click();
    await answered(page);
    await expect(state(page)).toHaveText('listening', { timeout: 20_000 });
    await page.getByRole('button', { name: 'End conversation' }).click();
    await expect(state(page)).toHaveText('not connected');
    expect(faults).toEqual([]);
  });
}

for (const [mode, framing] of [['Hold to talk', '2'], ['Automatic', '3']]) {
  test(`a file is sent in place of the microphone: ${mode}, framing ${framing}`, async ({ page, open, faults }) => {
    test.skip(!wav, 'CONSOLE_WAV names no recording');
    await open('talk');
    await page.getByText('Details and frames').click();
    await page.getByLabel('Binary frame version').selectOption(framing);
    await page.getByLabel(mode, { exact: true }).check();
    await page.locator('input[type=file]').setInputFiles(wav);
    await answered(page);
    await expect(words(page).first()).toBeVisible();
    expect(faults).toEqual([]);
  });
}

test('a reply is interrupted', async ({ page, open, faults }) => {
  await open('talk');
  await page.getByLabel('Type a message').fill('Tell me a story');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(state(page)).toHaveText('speaking', { timeout: 20_000 });
  await expect(replies(page).first()).toBeVisible();
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await expect(state(page)).toHaveText('idle', { timeout: 2_000 });
  expect(faults).toEqual([]);
});

test('without a secure context, typing works and replies are played as files', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await page.addInitScript(() => {
    Object.defineProperty(window, 'isSecureContext', { value: false });
    delete window.AudioDecoder;
    delete window.AudioEncoder;
    delete window.AudioWorkletNode;
  });
  await open('talk');
  await expect(page.getByText('Microphone access needs HTTPS or localhost.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Hold to talk (or hold Space)' })).toBeDisabled();
  await page.getByLabel('Type a message').fill('Hello');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await answered(page, 2);
  await expect.poll(() => page.evaluate(() => window.loudest), { timeout: 15_000 }).toBeGreaterThan(0.02);
  expect(faults).toEqual([]);
});

test('a command of the server reaches the page', async ({ page, open, faults }) => {
  await open('talk');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(state(page)).toHaveText('idle', { timeout: 15_000 });
  const id = await page.evaluate(() => localStorage.getItem('hearken.device_id'));
  expect((await operator('POST', `/api/devices/${id}/alert`, { status: 'Door', message: 'Somebody rings', emotion: 'surprised' })).status).toBe(202);
  await expect(page.getByText('Door: Somebody rings')).toBeVisible();
  await expect(page.getByRole('img', { name: 'surprised' })).toBeVisible();
  expect((await operator('POST', `/api/devices/${id}/say`, { text: 'Dinner is ready.' })).status).toBe(202);
  await expect(replies(page).first()).toHaveText(/Dinner is ready/);
  expect(faults).toEqual([]);
});
