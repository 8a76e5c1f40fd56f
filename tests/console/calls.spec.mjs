// Recent calls on Services: those of a turn against a real server; failures, calls without texts and refusals are
// mocked. Not for the tests of services: see services.spec.mjs.
import { accessible, drawn, expect, test } from './support.mjs';

const TIME = String.raw`\s*[\d.]+ (ms|s)`;
const calls = (page) => page.getByRole('region', { name: 'Recent calls' });
const CALL = {
  number: 7, service: 'llm', began: '2030-01-01T10:00:00.000Z', first_ms: 230.5, total_ms: 812, outcome: 'answered', error: null,
  sent: { model: '', messages: 5, tools: 12, max_tokens: 400, temperature: 0.7, characters: 2_310, text: 'What time is it?' },
  got: { text: 'It is ten.', calls: ['get_current_time'], prompt_tokens: 812, completion_tokens: 20 },
};

/** Mocks the response with these calls, filtered as the server does; collects the queries. */
async function tell(page, all, words = true) {
  const asked = [];
  await page.route(/\/api\/services\/calls/, (route) => {
    const { searchParams: wanted } = new URL(route.request().url());
    asked.push(wanted.toString());
    const fits = all.filter(({ service }) => [null, service].includes(wanted.get('service')));
    return route.fulfill({ json: { words, calls: fits.slice(0, Number(wanted.get('limit') ?? 50)) } });
  });
  return asked;
}

test('after a typed turn, the requests and responses of the services are listed', async ({ page, open, faults }) => {
  const words = 'Turn on the lamp in the attic';
  await open('talk');
  await page.getByLabel('Type a message').fill(words);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 20_000 });
  // Leaving earlier would cancel the model's call.
  await expect(page.locator('.head .badge[role=status]')).toHaveText('idle', { timeout: 30_000 });
  await page.getByRole('navigation').getByRole('link', { name: 'Services', exact: true }).click();
  const items = calls(page).getByRole('listitem');
  await expect(items.filter({ hasText: 'Synthesiser' }).first()).toBeVisible();
  await calls(page).getByLabel('Service', { exact: true }).selectOption('Language model');
  await expect(items.filter({ hasText: 'Synthesiser' })).toHaveCount(0);
  const call = items.filter({ hasText: words }).first();
  await expect(call).toContainText('answered');
  await expect(call).toContainText(new RegExp(`Total${TIME}`));
  await call.locator('summary').focus();
  await page.keyboard.press('Enter');
  await expect(call.getByRole('row', { name: /^Messages \d+$/ })).toBeVisible();
  await expect(call.locator('pre').first()).toHaveText(words);
  await expect(call.getByRole('heading', { name: 'Response' })).toBeVisible();
  await accessible(page);
  expect(faults).toEqual([]);
});

test('an open call shows request and response; new calls appear after a reload', async ({ page, open, faults }) => {
  const all = [CALL];
  await tell(page, all);
  await open('services');
  const call = calls(page).getByRole('listitem').first();
  await expect(call).toContainText('What time is it? → It is ten. → get_current_time');
  await expect(call).toContainText('First word 231 ms · Total 812 ms');
  await call.locator('summary').click();
  await expect(call.getByRole('row')).toHaveText([
    'ModelServer default', 'Messages5', 'Tools12', 'Characters2,310', 'Max output tokens400', 'Temperature0.7',
    'Tool callsget_current_time', 'Input tokens812', 'Output tokens20',
  ]);
  await accessible(page);
  all.unshift({ ...CALL, number: 8, service: 'asr', first_ms: null, sent: { audio_ms: 1_840 }, got: null, outcome: 'running', total_ms: null });
  await calls(page).getByRole('button', { name: 'Reload' }).click();
  await expect(calls(page).getByRole('listitem')).toHaveCount(2);
  await expect(calls(page).getByRole('listitem').first()).toContainText('in progress');
  await expect(calls(page).getByRole('listitem').last().locator('pre')).toHaveCount(2);
  expect(faults).toEqual([]);
});

test('failed calls are found among many others, with their errors', async ({ page, open, faults }) => {
  const many = Array.from({ length: 120 }, (_, n) => ({ ...CALL, number: 300 - n, service: 'tts' }));
  const failed = { ...CALL, number: 1, service: 'asr', outcome: 'failed', error: 'the service did not answer in time', first_ms: null, sent: { audio_ms: 1_840 }, got: null };
  const asked = await tell(page, [...many, failed]);
  await open('services');
  await expect(calls(page).getByRole('listitem')).toHaveCount(50);
  await calls(page).getByLabel('Failed only').check();
  const call = calls(page).getByRole('listitem');
  await expect(call).toHaveCount(1);
  await expect(call).toContainText('the service did not answer in time');
  await call.locator('summary').click();
  await expect(call.getByRole('row')).toHaveText(['Audio1.84 s']);
  await accessible(page);
  await calls(page).getByLabel('Service', { exact: true }).selectOption('Synthesiser');
  await expect(calls(page).getByText('No failed calls.')).toBeVisible();
  expect(asked).toEqual(['limit=50', 'service=tts&limit=200', 'service=asr&limit=200', 'service=llm&limit=200', 'service=tts&limit=200']);
  expect(faults).toEqual([]);
});

test('response times are drawn by service once two calls are answered', async ({ page, open, faults }) => {
  const at = (seconds) => new Date(Date.parse(CALL.began) + seconds * 1_000).toISOString();
  const all = [CALL];
  await tell(page, all);
  await open('services');
  await expect(calls(page).getByRole('listitem')).toHaveCount(1);
  await expect(calls(page).locator('canvas')).toHaveCount(0);
  all.unshift(
    { ...CALL, number: 12, began: at(40), outcome: 'failed', error: 'no', first_ms: null }, { ...CALL, number: 11, began: at(30), first_ms: 410 },
    { ...CALL, number: 10, began: at(20), service: 'asr', first_ms: null, total_ms: 1_500 }, { ...CALL, number: 9, began: at(10), service: 'tts', first_ms: 120 },
  );
  await calls(page).getByRole('button', { name: 'Reload' }).click();
  const chart = 'Response times of the last 4 answered calls, with medians: Synthesiser 120 ms, Recogniser 1.50 s, Language model 320 ms.';
  for (const colour of ['--accent', '--warn', '--ink']) await drawn(page, chart, colour);
  const plot = calls(page).locator('.u-over');
  const { width, height } = await plot.boundingBox();
  await plot.hover({ position: { x: width - 8, y: height / 2 } });
  await expect(calls(page).locator('.u-legend')).toContainText(/Language model\s*410 ms/);
  await expect(calls(page).getByRole('listitem')).toHaveCount(5);
  await accessible(page);
  await page.getByLabel('Theme').selectOption('dark');
  for (const colour of ['--accent', '--warn', '--ink']) await drawn(page, chart, colour);
  await page.setViewportSize({ width: 360, height: 740 });
  await drawn(page, chart);
  const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(room);
  await accessible(page);
  await calls(page).getByLabel('Failed only').check();
  await expect(calls(page).getByRole('listitem')).toHaveCount(1);
  await expect(calls(page).locator('canvas')).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('calls without texts fit a phone, dark and in Chinese; a refusal is shown', async ({ page, open }) => {
  const failed = { ...CALL, outcome: 'failed', error: 'x'.repeat(300), sent: { ...CALL.sent, text: null, model: 'm'.repeat(80) }, got: { text: null } };
  await tell(page, [failed], false);
  await page.setViewportSize({ width: 360, height: 740 });
  await open('services', { language: 'zh', theme: 'dark' });
  const list = page.getByRole('region', { name: '最近的调用' });
  await expect(list.getByText('不含文字')).toBeVisible();
  await list.locator('summary').click();
  await expect(list.getByRole('heading', { name: '响应' })).toBeVisible();
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  await page.unroute(/\/api\/services\/calls/);
  await page.route(/\/api\/services\/calls/, (route) => route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'no calls now' } } }));
  await list.getByRole('button', { name: '刷新' }).click();
  await expect(list.getByRole('alert')).toContainText('no calls now');
  await accessible(page);
});
