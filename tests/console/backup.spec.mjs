// The backup against a real server: the saved file, and the messages if it is truncated or refused. Truncated responses
// and refusals are mocked. Not for restoring a backup: see the tests of the store.
import { readFileSync } from 'node:fs';
import { accessible, expect, test } from './support.mjs';

const card = (page) => page.getByRole('region', { name: 'Backup' });
const save = (page) => card(page).getByRole('button', { name: 'Save backup' });

/** Collects the names of the files that the page saves. */
function files(page) {
  const found = [];
  page.on('download', (file) => found.push(file.suggestedFilename()));
  return found;
}

test('a backup is saved with its end line, and the card lists its content', async ({ page, open, faults }) => {
  await open('settings');
  await expect(card(page)).toContainText('The file contains secrets');
  await expect(card(page)).toContainText('hearken store restore FILE');
  await accessible(page);
  const saving = page.waitForEvent('download');
  await save(page).click();
  const file = await saving;
  expect(file.suggestedFilename()).toMatch(/^hearken-\d{4}-\d\d-\d\d\.backup$/);
  const lines = readFileSync(await file.path(), 'utf8').trimEnd().split('\n');
  expect(JSON.parse(lines.at(-1)).end).toBeInstanceOf(Object);
  expect(lines.length).toBeGreaterThan(1);
  await expect(card(page).getByRole('status')).toHaveText(/^Saved: hearken-.*\.backup, [\d.]+ (B|KiB|MiB)\. The backup is complete\.$/);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a truncated backup is not saved, and the next one is', async ({ page, open, faults }) => {
  const saved = files(page);
  await page.route('**/api/admin/backup', (route) => route.fulfill({ contentType: 'application/x-ndjson', body: '{"hearken":1}\n{"devices":{"id":1}}\n' }));
  await open('settings');
  await save(page).click();
  await expect(card(page).getByRole('alert')).toContainText('The backup is incomplete');
  await accessible(page);
  expect(saved).toEqual([]);
  await page.unroute('**/api/admin/backup');
  await save(page).click();
  await expect(card(page).getByRole('status')).toContainText('The backup is complete.');
  await expect(card(page).getByRole('alert')).toHaveCount(0);
  await expect.poll(() => saved.length).toBe(1);
  expect(faults).toEqual([]);
});

test('a cancelled backup is not saved and shows no message', async ({ page, open }) => {
  const saved = files(page);
  await page.route('**/api/admin/backup', () => undefined);
  await open('settings');
  await save(page).click();
  await expect(card(page)).toContainText('0 B received');
  await expect(save(page)).toBeDisabled();
  await accessible(page);
  await card(page).getByRole('button', { name: 'Cancel' }).click();
  await expect(save(page)).toBeEnabled();
  await expect(card(page).getByRole('alert')).toHaveCount(0);
  expect(saved).toEqual([]);
});

test('a concurrent backup is refused with a remedy, on a phone, dark and in Chinese', async ({ page, open }) => {
  await page.route('**/api/admin/backup', (route) => route.fulfill({ status: 409, json: { error: { code: 'CONFLICT', message: 'another backup runs' } } }));
  await page.setViewportSize({ width: 360, height: 740 });
  await open('settings', { language: 'zh', theme: 'dark' });
  const shown = page.getByRole('region', { name: '备份' });
  await shown.getByRole('button', { name: '保存备份' }).click();
  await expect(shown.getByRole('alert')).toContainText('another backup runs');
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
});
