// Live turns against a mock: the sentence about the wait, the keyboard, and 200 turns at once.
import { accessible, expect, MOCK_URL, test } from './support.mjs';

const row = (page, client) => page.locator('article', { hasText: client });

test.beforeEach(({ request }) => request.get(`${MOCK_URL}/api/turns/mock?live=0`));

test('a turn names the largest part of the wait, and each bar by mouse and keyboard', async ({ page, open, faults }) => {
  await open('live', { base: MOCK_URL });
  const known = row(page, 'known-device');
  await expect(known).toContainText('83% of the 1.00 s wait: first word.');
  await expect(known).toContainText('waited 1.00 s');
  await expect(known.locator('s')).toHaveText('a lamp.');
  await known.getByRole('group').focus();
  await page.keyboard.press('ArrowRight');
  await expect(known.locator('.told')).toHaveText('speech: from 0 ms, 1.00 s');
  for (let n = 0; n < 4; n++) await page.keyboard.press('ArrowRight');
  await expect(known.locator('.told')).toHaveText(/model/);
  await known.locator('rect.bar.guilty').hover();
  await expect(known.locator('.told')).toHaveText('first word (local): from 1.15 s, 830 ms');
  await accessible(page);
  expect(faults).toEqual([]);
});

test('turns appear and change automatically, except while paused', async ({ page, open, request, faults }) => {
  await open('live', { base: MOCK_URL });
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  await request.get(`${MOCK_URL}/api/turns/mock?live=3`);
  await expect(page.locator('[aria-setsize="4"]').first()).toBeVisible();
  await expect(page.locator('article').first()).toContainText('answered', { timeout: 10_000 });
  await page.getByRole('button', { name: 'Pause' }).click();
  await request.get(`${MOCK_URL}/api/turns/mock?live=2`);
  await page.waitForTimeout(600);
  await expect(page.getByRole('feed').locator('[aria-setsize="4"]').first()).toBeVisible();
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByRole('feed').locator('[aria-setsize="6"]').first()).toBeVisible();
  expect(faults).toEqual([]);
});

test('the page stays smooth while 200 turns change', { tag: '@long' }, async ({ page, open, request, faults }) => {
  await open('live', { base: MOCK_URL });
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  await request.get(`${MOCK_URL}/api/turns/mock?live=200`);
  await expect(page.locator('[aria-setsize="201"]').first()).toBeVisible();
  const frames = await page.evaluate(() => new Promise((done) => {
    const gaps = [];
    const box = document.querySelector('[role=feed]');
    let last = performance.now();
    const began = last;
    const frame = (now) => {
      gaps.push(now - last);
      last = now;
      box.scrollTop += 40;
      if (now - began < 3_000) requestAnimationFrame(frame);
      else done(gaps.slice(1));
    };
    requestAnimationFrame(frame);
  }));
  const worst = Math.max(...frames);
  console.log(`frames: ${frames.length} in 3 s, longest ${worst.toFixed(1)} ms`);
  expect(worst).toBeLessThan(100);
  expect(await page.locator('article').count()).toBeLessThan(20);
  expect(faults).toEqual([]);
});

test('the scroll position is stable while turns appear', async ({ page, open, request }) => {
  await request.get(`${MOCK_URL}/api/turns/mock?live=30`);
  await open('live', { base: MOCK_URL });
  await expect(page.locator('article', { hasText: 'answered' }).first()).toBeVisible({ timeout: 10_000 });
  await page.waitForTimeout(2_500);
  const feed = page.getByRole('feed');
  await feed.evaluate((box) => (box.scrollTop = 1_500));
  await page.waitForTimeout(200);
  const place = () => feed.evaluate((box) => {
    const first = [...box.querySelectorAll('article')].find((one) => one.getBoundingClientRect().bottom > box.getBoundingClientRect().top);
    return `${first.getAttribute('aria-label')} ${Math.round(first.getBoundingClientRect().top - box.getBoundingClientRect().top)}`;
  });
  const before = await place();
  await request.get(`${MOCK_URL}/api/turns/mock?live=5`);
  await page.waitForTimeout(700);
  expect(await place()).toBe(before);
});

test('a server without turns says so', async ({ page, open }) => {
  await page.route('**/api/turns**', (route) => route.fulfill({ status: 404, json: { error: { code: 'NOT_FOUND', message: 'nothing' } } }));
  await open('live', { base: MOCK_URL });
  await expect(page.getByText('This server version does not expose /api/turns.')).toBeVisible();
});
