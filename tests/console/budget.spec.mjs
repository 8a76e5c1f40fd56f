// What the page may cost the person who opens it: bytes, requests, and the times that a browser measures. Also how its files
// are cached and compressed. Only where the server serves the console itself, which CONSOLE_URL says. Not for what it does.
import { readdirSync } from 'node:fs';
import { expect, forgetDevices, onlyIf, test } from './support.mjs';

const FILES = new URL('../../web/console/dist/', import.meta.url);
// Times are held only where nothing else runs, which `scripts/console all` says.
const TIMES = process.env.CONSOLE_TIMES === '1' ? { paint_ms: 2_500, blocked_ms: 300 } : {};
const LIMITS = { bytes: 150_000, requests: 25, shift: 0.1, ...TIMES };
const LIMITS_IN_ALL = { ...LIMITS, bytes: 300_000, requests: 60 };
/** What is asked for within this time belongs to the screen. */
const QUIET_MS = 1_000;
const SCREENS = ['home', 'live', 'talk'];
const rows = [];

onlyIf(test, process.env.CONSOLE_URL, 'the budget needs a server that serves the console itself, in CONSOLE_URL');
// Home then shows the first steps, which are most there is to see.
test.beforeAll(forgetDevices);
test.afterAll(() => rows.length > 0 && console.table([...rows, { screen: 'at most', ...LIMITS }, { screen: 'all at most', ...LIMITS_IN_ALL }]));

/** Counts what the page asks for, over the wire and without a cache that was filled before. */
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

/** Waits until the page asks for nothing more; at most 10 s, because some screens ask again and again. */
async function untilQuiet(page, traffic) {
  const began = Date.now();
  while (Date.now() - traffic.last < QUIET_MS && Date.now() - began < 10_000) await page.waitForTimeout(100);
}

/** Notes the largest paint, the shifts of the layout and the long tasks, from the start of the page. */
function measureTimes(page) {
  return page.addInitScript(() => {
    window.times = { paint_ms: 0, shift: 0, blocked_ms: 0 };
    const watch = (type, add) => new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type, buffered: true });
    watch('largest-contentful-paint', (entry) => (window.times.paint_ms = entry.startTime));
    watch('layout-shift', (entry) => (window.times.shift += entry.hadRecentInput ? 0 : entry.value));
    watch('longtask', (entry) => (window.times.blocked_ms += Math.max(0, entry.duration - 50)));
  });
}

/** Holds the limits of what was counted, and keeps it for the table. */
async function hold(page, name, traffic, limits = LIMITS) {
  const { paint_ms, shift, blocked_ms } = await page.evaluate(() => window.times);
  const row = { screen: name, bytes: traffic.bytes(), requests: traffic.requests.length, paint_ms: Math.round(paint_ms), shift: Number(shift.toFixed(3)), blocked_ms: Math.round(blocked_ms) };
  rows.push(row);
  expect.soft(paint_ms).toBeGreaterThan(0);
  for (const [what, limit] of Object.entries(limits)) expect.soft(row[what], what).toBeLessThanOrEqual(limit);
  const foreign = traffic.requests.filter((url) => !/^(data|blob):/.test(url) && new URL(url).origin !== process.env.CONSOLE_URL);
  expect(foreign).toEqual([]);
}

test('the log-in is small and quick', async ({ page, faults }) => {
  const traffic = await countTraffic(page);
  await measureTimes(page);
  await page.goto('/console/');
  await expect(page.getByRole('button', { name: 'Log in', exact: true })).toBeVisible();
  await untilQuiet(page, traffic);
  await hold(page, 'log-in', traffic);
  expect(faults).toEqual([]);
});

for (const screen of SCREENS) {
  test(`${screen} as the first screen is small and quick`, async ({ page, open, faults }) => {
    const traffic = await countTraffic(page);
    await measureTimes(page);
    await open(screen);
    await untilQuiet(page, traffic);
    await hold(page, screen, traffic);
    expect(faults).toEqual([]);
  });
}

test('one screen after the other stays small and quick', async ({ page, open, faults }) => {
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

test('files whose names change with their content are kept by the browser, the page is not, and both are compressed', async ({ request }) => {
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

test('a second visit loads no file whose name changes with its content', async ({ page, open }) => {
  await open('home');
  await page.reload();
  await expect(page.locator('main h1')).toHaveText('Home');
  const files = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name, transferSize }) => ({ name, transferSize })));
  const hashed = files.filter(({ name }) => name.includes('/console/assets/'));
  expect(hashed.length).toBeGreaterThan(0);
  expect(hashed.filter(({ transferSize }) => transferSize > 0)).toEqual([]);
});
