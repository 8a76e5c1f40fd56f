// The budget of the page: bytes, requests and browser timings; also caching and compression of its files. Only if the
// server serves the console itself (CONSOLE_URL). Not for its behaviour.
import { readdirSync } from 'node:fs';
import { expect, forgetDevices, onlyIf, test } from './support.mjs';

const FILES = new URL('../../web/console/dist/', import.meta.url);
// Time limits apply only if nothing else is running, as in `scripts/console all`.
const TIMES = process.env.CONSOLE_TIMES === '1' ? { paint_ms: 2_500, blocked_ms: 300 } : {};
const LIMITS = { bytes: 150_000, requests: 25, shift: 0.1, ...TIMES };
const LIMITS_IN_ALL = { ...LIMITS, bytes: 300_000, requests: 60 };
/** Requests within this time belong to the screen. */
const QUIET_MS = 1_000;
const SCREENS = ['home', 'live', 'talk'];
const rows = [];

onlyIf(test, process.env.CONSOLE_URL, 'the budget needs a server that serves the console itself, in CONSOLE_URL');
// Home then shows the first steps, its largest variant.
test.beforeAll(forgetDevices);
test.afterAll(() => rows.length > 0 && console.table([...rows, { screen: 'at most', ...LIMITS }, { screen: 'all at most', ...LIMITS_IN_ALL }]));

/** Counts requests and bytes over the network, with an empty cache. */
async function countTraffic(page) {
  const wire = await page.context().newCDPSession(page);
  await wire.send('Network.enable');
  const bytes = new Map();
  const traffic = { requests: [], last: Date.now(), bytes: () => [...bytes.values()].reduce((sum, one) => sum + one, 0) };
  const heard = (event, then) => wire.on(`Network.${event}`, (told) => {
    traffic.last = Date.now();
    then(told);
  });
  heard('requestWillBeSent', ({ request }) => traffic.requests.push(request.url));
  heard('responseReceived', ({ requestId, response }) => {
    bytes.set(requestId, response.encodedDataLength);
  });
  // A stream does not end.
  heard('dataReceived', ({ requestId, encodedDataLength }) => bytes.set(requestId, (bytes.get(requestId) ?? 0) + encodedDataLength));
  heard('loadingFinished', ({ requestId, encodedDataLength }) => bytes.set(requestId, encodedDataLength));
  return traffic;
}

/** Waits until the page makes no more requests; at most 10 s, because some screens poll. */
async function untilQuiet(page, traffic) {
  const began = Date.now();
  while (Date.now() - traffic.last < QUIET_MS && Date.now() - began < 10_000) await page.waitForTimeout(100);
}

/** Records the largest contentful paint, layout shifts and long tasks, from the start of the page. */
function measureTimes(page) {
  return page.addInitScript(() => {
    window.times = { paint_ms: 0, shift: 0, blocked_ms: 0 };
    const watch = (type, add) => new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type, buffered: true });
    watch('largest-contentful-paint', (entry) => (window.times.paint_ms = entry.startTime));
    watch('layout-shift', (entry) => (window.times.shift += entry.hadRecentInput ? 0 : entry.value));
    watch('longtask', (entry) => (window.times.blocked_ms += Math.max(0, entry.duration - 50)));
  });
}

/** Checks the counts against the limits, and adds them to the table. */
async function hold(page, name, traffic, limits = LIMITS) {
  const { paint_ms, shift, blocked_ms } = await page.evaluate(() => window.times);
  const row = { screen: name, bytes: traffic.bytes(), requests: traffic.requests.length, paint_ms: Math.round(paint_ms), shift: Number(shift.toFixed(3)), blocked_ms: Math.round(blocked_ms) };
  rows.push(row);
  expect.soft(paint_ms).toBeGreaterThan(0);
  for (const [what, limit] of Object.entries(limits)) expect.soft(row[what], what).toBeLessThanOrEqual(limit);
  const foreign = traffic.requests.filter((url) => !/^(data|blob):/.test(url) && new URL(url).origin !== process.env.CONSOLE_URL);
  expect(foreign).toEqual([]);
}

test('the login is small and fast', async ({ page, faults }) => {
  const traffic = await countTraffic(page);
  await measureTimes(page);
  await page.goto('/console/');
  await expect(page.getByRole('button', { name: 'Log in', exact: true })).toBeVisible();
  await untilQuiet(page, traffic);
  await hold(page, 'log-in', traffic);
  expect(faults).toEqual([]);
});

for (const screen of SCREENS) {
  test(`${screen} as the first screen is small and fast`, async ({ page, open, faults }) => {
    const traffic = await countTraffic(page);
    await measureTimes(page);
    await open(screen);
    await untilQuiet(page, traffic);
    await hold(page, screen, traffic);
    expect(faults).toEqual([]);
  });
}

test('navigation between screens is small and fast', async ({ page, open, faults }) => {
  const traffic = await countTraffic(page);
  await measureTimes(page);
  await open('home');
  for (const screen of [...SCREENS.slice(1), 'home']) {
    await untilQuiet(page, traffic);
    await page.getByRole('navigation').locator(`a[href="#/${screen}"]`).click();
    await expect(page.locator('main h1')).toHaveText(new RegExp(`^${screen}$`, 'i'));
  }
  await untilQuiet(page, traffic);
  await hold(page, 'all of them', traffic, LIMITS_IN_ALL);
  expect(faults).toEqual([]);
});

test('files with hashed names are cached by the browser, the page is not, and both are compressed', async ({ request }) => {
  const hashed = readdirSync(new URL('assets/', FILES)).map((name) => `assets/${name}`);
  expect(hashed.length).toBeGreaterThan(10);
  for (const name of ['', 'icon.svg', ...hashed]) {
    const answer = await request.get(`/console/${name}`, { headers: { 'accept-encoding': 'gzip' } });
    const headers = answer.headers();
    expect(answer.status(), name).toBe(200);
    expect(headers['cache-control'], name).toBe(hashed.includes(name) ? 'public, max-age=31536000, immutable' : 'no-cache');
    expect(headers.etag, name).toBeTruthy();
    expect(headers.vary, name).toMatch(/accept-encoding/i);
    expect(headers['content-encoding'], name).toBe('gzip');
  }
});

test('a second visit loads no file with a hashed name', async ({ page, open }) => {
  await open('home');
  await page.reload();
  await expect(page.locator('main h1')).toHaveText('Home');
  const files = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name, transferSize }) => ({ name, transferSize })));
  const hashed = files.filter(({ name }) => name.includes('/console/assets/'));
  expect(hashed.length).toBeGreaterThan(0);
  expect(hashed.filter(({ transferSize }) => transferSize > 0)).toEqual([]);
});
