// Usage and costs against a real server: numbers after a turn, a limit that is set, reached and removed, and refused
// values. Names of reached limits, prices and long periods are mocked. Not for counting usage.
import { accessible, drawn, expect, operator, setting, test } from './support.mjs';

const region = (page, name) => page.getByRole('region', { name, exact: true });
const group = (page, name) => page.getByRole('group', { name, exact: true });
const total = (page) => group(page, 'Overall, per day');
const save = (page) => page.getByRole('button', { name: 'Save', exact: true });
const usage = async () => JSON.parse((await operator('GET', '/api/usage?days=7')).body);
const usedToday = async () => (await usage()).used_today;
const tokensOf = (sums) => sums.prompt_tokens + sums.completion_tokens;
const number = (value) => new Intl.NumberFormat('en').format(value);
const reached = (page) => page.getByText('Daily limit reached:');
const UNLIMITED = { tokens: 0, seconds: 0, cost: 0 };
const SUMS = { turns: 3, refused: 1, prompt_tokens: 900, completion_tokens: 100, heard_seconds: 30, said_seconds: 60.5, said_chars: 800, cost: 0.25 };

/** Types a message on Talk and waits until its turn is counted. */
async function write(page, words) {
  const before = (await usedToday()).turns;
  await page.getByLabel('Type a message').fill(words);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect.poll(async () => (await usedToday()).turns, { timeout: 30_000 }).toBeGreaterThan(before);
  await expect(page.locator('.head .badge[role=status]')).toHaveText('idle', { timeout: 30_000 });
}

const goTo = (page, name) => page.getByRole('navigation').getByRole('link', { name, exact: true }).click();

/** Overrides fields of the server's usage response. */
async function tell(page, of) {
  await page.route('**/api/usage?*', async (route) => route.fulfill({ json: { ...(await usage()), ...of } }));
}

test.afterEach(() => setting({ 'usage.total_tokens': null }));

test('after a turn, the screen shows the usage by day, device, role and client type', async ({ page, open, faults }) => {
  await open('talk');
  await write(page, 'Turn on the lamp in the hall');
  const id = await page.evaluate(() => localStorage.getItem('hearken.device_id'));
  await goTo(page, 'Costs');
  const { used_today: used } = await usage();
  expect(tokensOf(used)).toBeGreaterThan(0);
  const today = region(page, 'Today');
  await expect(today.locator('div', { has: page.getByText('Turns', { exact: true }) }).last()).toContainText(number(used.turns));
  await expect(today.locator('div', { has: page.getByText('Tokens', { exact: true }) }).last()).toContainText(number(tokensOf(used)));
  await expect(reached(page)).toHaveCount(0);
  await page.getByLabel('Measure', { exact: true }).selectOption('Tokens');
  await expect(page.getByRole('img', { name: /^Tokens by day from / })).toBeVisible();
  await expect(region(page, 'By device').locator(`a[href="#/devices/${encodeURIComponent(id)}"]`)).toBeVisible();
  await expect(region(page, 'By role').getByRole('row').nth(1)).toBeVisible();
  await expect(region(page, 'By client type').getByRole('row').nth(1)).toBeVisible();
  await accessible(page);
  const asked = page.waitForRequest('**/api/usage?days=7');
  await page.getByLabel('Period').selectOption('7 days');
  await asked;
  await page.getByLabel('Measure', { exact: true }).selectOption('Speech');
  await expect(page.getByRole('img', { name: /^Speech by day from / })).toBeVisible();
  await page.getByText('Show as table').click();
  await expect(region(page, 'By day').getByRole('row')).toHaveCount(8);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a token limit is set, reached by a turn, refuses the next one, and is removed', async ({ page, open, faults }) => {
  await open('talk');
  await write(page, 'Turn on the lamp in the hall');
  await goTo(page, 'Costs');
  const limit = tokensOf(await usedToday()) + 1;
  await expect(save(page)).toBeDisabled();
  await total(page).getByLabel('Tokens').fill(String(limit));
  await save(page).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await expect(total(page).getByText('changed here')).toBeVisible();
  await expect(region(page, 'Today').getByRole('meter', { name: 'Tokens' })).toBeVisible();
  await expect(region(page, 'Today')).toContainText(`${number(limit - 1)} of ${number(limit)}`);
  await expect(reached(page)).toHaveCount(0);
  await accessible(page);

  await goTo(page, 'Talk');
  await write(page, 'Turn on the lamp in the kitchen');
  expect(tokensOf(await usedToday())).toBeGreaterThanOrEqual(limit);
  const { refused } = await usedToday();
  await write(page, 'Turn on the lamp in the cellar');
  expect((await usedToday()).refused).toBe(refused + 1);
  await goTo(page, 'Costs');
  await expect(reached(page)).toBeVisible();
  await expect(page.getByText('Overall: Tokens')).toBeVisible();
  await expect(page.getByText('To continue at once, raise the limit below')).toBeVisible();
  await accessible(page);

  await total(page).getByLabel('Tokens').fill('0');
  await save(page).click();
  await expect(reached(page)).toHaveCount(0);
  await expect(region(page, 'Today').getByRole('meter')).toHaveCount(0);
  expect((await usage()).limits.total.tokens).toBe(0);
  expect(faults).toEqual([]);
});

test('an invalid number is reported at once, and a refusal at its field', async ({ page, open }) => {
  await open('costs');
  const seconds = total(page).getByLabel('Seconds of speech');
  await seconds.fill('1.5');
  await expect(total(page).getByRole('alert')).toHaveText('Enter a whole number, 0 or more.');
  await expect(seconds).toHaveAttribute('aria-invalid', 'true');
  await expect(save(page)).toBeDisabled();
  await accessible(page);
  await seconds.fill('3600');
  await expect(total(page).getByRole('alert')).toHaveCount(0);
  const message = 'the request cannot be read: `usage.total_seconds` is 3600: use less';
  await page.route('**/api/admin/config', (route) =>
    route.request().method() === 'PATCH' ? route.fulfill({ status: 400, json: { error: { code: 'BAD_REQUEST', message } } }) : route.continue());
  const sent = page.waitForRequest((request) => request.method() === 'PATCH');
  await save(page).click();
  expect((await sent).postDataJSON()).toEqual({ 'usage.total_seconds': 3_600 });
  await expect(total(page).getByRole('alert')).toHaveText(message);
  await expect(seconds).toHaveValue('3600');
});

test('a changed setting is restored; one from the environment cannot be changed', async ({ page, open, faults }) => {
  await setting({ 'usage.total_tokens': 1_000_000_000 });
  await page.route('**/api/admin/config', async (route) => {
    const answer = await route.fetch();
    const told = await answer.json();
    await route.fulfill({ response: answer, json: { ...told, sources: { ...told.sources, 'usage.device_tokens': 'environment' } } });
  });
  await open('costs');
  const field = total(page).getByLabel('Tokens');
  await expect(field).toHaveValue('1000000000');
  await expect(group(page, 'Each device, per day').getByLabel('Tokens')).toBeDisabled();
  await expect(page.getByText('Set by an environment variable.')).toBeVisible();
  await accessible(page);
  await total(page).getByRole('button', { name: 'Restore config.toml value' }).click();
  await expect(field).toHaveValue('0');
  await expect(region(page, 'Today').getByRole('meter')).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('reached limits are named, and costs have a currency', async ({ page, open, faults }) => {
  const { today } = await usage();
  await tell(page, {
    currency: 'EUR', used_today: SUMS, days: [{ day: today, ...SUMS }],
    limits: { device: { ...UNLIMITED, seconds: 60 }, total: { ...UNLIMITED, cost: 0.2 } },
    devices: [{ client: 'aa:bb:cc:dd:ee:01', name: 'Kitchen', ...SUMS }, { client: '', name: '', ...SUMS }],
    roles: [{ role_id: 'kids', name: 'Kids', ...SUMS }, { role_id: 'old', name: '', ...SUMS }, { role_id: '', name: '', ...SUMS }],
    reached: [
      { of: 'device', id: 'aa:bb:cc:dd:ee:01', limit: 'seconds' }, { of: 'role', id: 'kids', limit: 'tokens' }, { of: 'total', id: '', limit: 'cost' },
    ],
  });
  await open('costs');
  await expect(page.getByRole('link', { name: 'Device Kitchen: Speech' })).toHaveAttribute('href', '#/devices/aa%3Abb%3Acc%3Add%3Aee%3A01');
  await expect(page.getByRole('link', { name: 'Role Kids: Tokens' })).toHaveAttribute('href', '#/roles/kids');
  await expect(page.getByText('Overall: Cost')).toBeVisible();
  await expect(region(page, 'Today')).toContainText(/0\.25\sEUR of 0\.2\sEUR/);
  await expect(page.getByRole('img', { name: /^Cost by day from .*: 0\.25\sEUR in total/ })).toBeVisible();
  await expect(region(page, 'By device').getByRole('row')).toHaveText([/^Device/, /^Kitchen\s*50%/, /^All others\s*50%/]);
  await expect(region(page, 'By role').getByRole('row').nth(2)).toContainText('Deleted role old');
  await accessible(page);
  expect(faults).toEqual([]);
});

test('the chart shows the day at the pointer, follows the theme, and is as wide as the screen', async ({ page, open, faults }) => {
  const { today } = await usage();
  await tell(page, { currency: 'EUR', days: [{ day: today, ...SUMS }] });
  await open('costs');
  const chart = /^Cost by day from .*: 0\.25\sEUR in total/;
  await drawn(page, chart);
  const plot = page.getByRole('img', { name: chart }).locator('.u-over');
  const { width, height } = await plot.boundingBox();
  await plot.hover({ position: { x: width - 8, y: height / 2 } });
  const told = page.getByRole('img', { name: chart }).locator('.u-legend');
  const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(today));
  await expect(told).toContainText(day);
  await expect(told).toContainText(/Cost\s*0\.25\sEUR/);
  await accessible(page);
  await page.getByLabel('Theme').selectOption('dark');
  await drawn(page, chart);
  await page.setViewportSize({ width: 700, height: 740 });
  await drawn(page, chart);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('without usage and password, the screen says so and shows the limits', async ({ page, open, faults }) => {
  const none = Object.fromEntries(Object.keys(SUMS).map((key) => [key, 0]));
  const limits = { device: UNLIMITED, total: { ...UNLIMITED, tokens: 5_000 } };
  await tell(page, { used_today: none, days: [], devices: [], roles: [], kinds: [], reached: [], limits });
  await open('costs');
  await page.addInitScript(() => {
    const session = JSON.parse(sessionStorage.getItem('hearken.session'));
    sessionStorage.setItem('hearken.session', JSON.stringify({ ...session, tokens: null }));
  });
  await page.reload();
  await expect(page.getByText('No usage in this period.')).toBeVisible();
  await expect(page.locator('canvas')).toHaveCount(0);
  await expect(region(page, 'By device')).toHaveCount(0);
  await expect(region(page, 'Limits and prices')).toContainText('Tokens: 5,000');
  await expect(page.getByText('To change limits and prices, enter the password')).toBeVisible();
  await expect(save(page)).toHaveCount(0);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('an error of the server is shown with a remedy and a retry', async ({ page, open }) => {
  await page.route('**/api/usage?*', (route) => route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'the store does not answer' } } }));
  await open('costs');
  await expect(page.getByRole('alert')).toContainText('the store does not answer');
  await accessible(page);
  await page.unroute('**/api/usage?*');
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(region(page, 'Today')).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('90 days fit a phone, dark and in Chinese', async ({ page, open, faults }) => {
  const { today } = await usage();
  const at = (back) => new Date(Date.parse(today) - back * 86_400_000).toISOString().slice(0, 10);
  const days = [80, 41, 40, 3, 0].map((back) => ({ day: at(back), ...SUMS, prompt_tokens: 1_000 * (back + 1) }));
  await tell(page, { from: at(89), days, devices: [{ client: 'x'.repeat(60), name: '', ...SUMS }] });
  await page.setViewportSize({ width: 360, height: 740 });
  await open('costs', { language: 'zh', theme: 'dark' });
  await page.getByLabel('时间范围').selectOption('90 天');
  await page.getByLabel('指标').selectOption('Token 数');
  await drawn(page, /每日用量（Token 数）/);
  await page.getByText('以表格显示').click();
  await expect(region(page, '按天').getByRole('row')).toHaveCount(91);
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  expect(faults).toEqual([]);
});
