// Takes the pictures of docs/console.md: each screen light, dark and on a phone. Only where CONSOLE_PICTURES names a folder;
// `scripts/console pictures` does. Not a test of how it looks.
import { expect, keep, test } from './support.mjs';

const folder = process.env.CONSOLE_PICTURES ?? '';
const SCREENS = ['home', 'talk', 'live', 'history', 'devices', 'people', 'tools', 'settings', 'conversations', 'audit'];
const FORMS = [
  { name: 'light', theme: 'light', width: 1200, height: 760 },
  { name: 'dark', theme: 'dark', width: 1200, height: 760 },
  { name: 'phone', theme: 'light', width: 390, height: 760 },
];

test.skip(!folder, 'CONSOLE_PICTURES names no folder');
// The conversation on Talk is then there to see on History.
test.beforeAll(() => keep('audio'));
test.afterAll(() => keep(null));

/** Has something said and something written, so that there is something to see. */
async function converse(page) {
  const state = page.locator('.head .badge[role=status]');
  await page.getByLabel('Automatic', { exact: true }).check();
  await page.locator('input[type=file]').setInputFiles(process.env.CONSOLE_WAV);
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 30_000 });
  await expect(state).toHaveText(/idle|listens/, { timeout: 30_000 });
  await page.getByLabel('Write a sentence').fill('Turn on the lamp');
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('.device.wrap').nth(1)).toBeVisible({ timeout: 20_000 });
}

for (const form of FORMS) {
  for (const screen of SCREENS) {
    test(`picture of ${screen}, ${form.name}`, async ({ page, open }) => {
      await page.setViewportSize({ width: form.width, height: form.height });
      await open(screen, { theme: form.theme });
      await expect(page.getByText(/^Loading/)).toHaveCount(0);
      if (screen === 'talk') await converse(page);
      if (screen === 'history') await page.locator('a.turn').first().click();
      await page.screenshot({ path: `${folder}/${screen}-${form.name}.jpg`, type: 'jpeg', quality: 72, animations: 'disabled' });
    });
  }
}
