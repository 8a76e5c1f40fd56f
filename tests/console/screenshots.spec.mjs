// Takes the pictures of docs/console.md: each screen light, dark and on a phone. Only with a folder in
// CONSOLE_PICTURES, as set by `scripts/console pictures`. Not a test of the appearance.
import { expect, keep, operator, test } from './support.mjs';

const folder = process.env.CONSOLE_PICTURES ?? '';
const SCREENS = ['home', 'talk', 'live', 'history', 'devices', 'people', 'roles', 'services', 'costs', 'tools', 'settings', 'conversations', 'audit', 'account'];
const FORMS = [
  { name: 'light', theme: 'light', width: 1200, height: 760 },
  { name: 'dark', theme: 'dark', width: 1200, height: 760 },
  { name: 'phone', theme: 'light', width: 390, height: 760 },
];

test.skip(!folder, 'CONSOLE_PICTURES names no folder');
// History then shows the conversation on Talk.
test.beforeAll(() => keep('audio'));
test.afterAll(async () => {
  await keep(null);
  for (const { id } of JSON.parse((await operator('GET', '/api/roles')).body).roles) await operator('DELETE', `/api/roles/${id}`);
});

/** Creates a spoken and a typed turn, so that there is content. */
async function converse(page) {
  const state = page.locator('.head .badge[role=status]');
  await page.getByLabel('Automatic', { exact: true }).check();
  await page.locator('input[type=file]').setInputFiles(process.env.CONSOLE_WAV);
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 30_000 });
  await expect(state).toHaveText(/idle|listening/, { timeout: 30_000 });
  await page.getByLabel('Type a message').fill('Turn on the lamp');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.locator('.device.wrap').nth(1)).toBeVisible({ timeout: 20_000 });
}

/** Opens a role with two versions and a reply; adds it if necessary. */
async function tell(page) {
  const name = 'Bedtime stories for children';
  const role = page.getByRole('link', { name: new RegExp(`^${name}`) });
  if ((await role.count()) > 0) await role.click();
  else {
    await page.getByLabel(name).check();
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByLabel('Temperature').fill('0.4');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await expect(page.getByText('Saved.')).toBeVisible();
  }
  await page.getByLabel('Message').fill('Tell me a story about a bear.');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Attempt 1' })).toBeVisible({ timeout: 20_000 });
  await page.getByRole('heading', { name: 'Roles', level: 2 }).scrollIntoViewIfNeeded();
}

/** Tests all services, so that there are times. */
async function measure(page) {
  await page.getByRole('button', { name: 'Test all' }).click();
  await expect(page.getByText(/^A spoken turn would take about/)).toBeVisible({ timeout: 60_000 });
}

for (const form of FORMS) {
  for (const screen of SCREENS) {
    test(`picture of ${screen}, ${form.name}`, async ({ page, open }) => {
      await page.setViewportSize({ width: form.width, height: form.height });
      await open(screen, { theme: form.theme });
      await expect(page.getByText(/^Loading/)).toHaveCount(0);
      if (screen === 'talk') await converse(page);
      if (screen === 'roles') await tell(page);
      if (screen === 'services') await measure(page);
      if (screen === 'history') await page.locator('a.turn').first().click();
      await page.screenshot({ path: `${folder}/${screen}-${form.name}.jpg`, type: 'jpeg', quality: 72, animations: 'disabled' });
    });
  }
}

for (const form of FORMS) {
  test(`picture of the first run, ${form.name}`, async ({ page }) => {
    await page.setViewportSize({ width: form.width, height: form.height });
    // The server of the tests has a password.
    await page.route('**/api/admin/setup', (route) => route.fulfill({ json: { password: 'none' } }));
    await page.addInitScript(([theme]) => {
      localStorage.setItem('hearken.language', 'en');
      localStorage.setItem('hearken.theme', theme);
    }, [form.theme]);
    await page.goto('/console/#/setup?code=4821-9035');
    await expect(page.getByRole('heading', { name: 'Choose a password' })).toBeVisible();
    await page.screenshot({ path: `${folder}/setup-${form.name}.jpg`, type: 'jpeg', quality: 72, animations: 'disabled' });
  });
}
