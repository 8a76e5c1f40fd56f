// Tests of services against a real server, including the microphone, and the first steps on Home. Only failures are
// mocked. Forgets all devices. Not for recent calls: see calls.spec.mjs.
import { accessible, expect, forgetDevices, listenToOutput, test, TOKEN } from './support.mjs';

const TIME = String.raw`\s*[\d.]+ (ms|s)`;
const card = (page, name) => page.getByRole('region', { name, exact: true });
const testing = (page, name) => card(page, name).getByRole('button', { name: `Test: ${name}` });
const all = (page) => page.getByRole('button', { name: 'Test all' });
const steps = (page) => page.getByRole('region', { name: 'First steps' });
const heard = (page) => card(page, 'Recogniser').locator('dd.text');

/** Mocks failures of the tests of these services. */
async function fail(page, errors) {
  await page.route('**/api/services/test', (route) => {
    const { service } = route.request().postDataJSON();
    const failed = { service, ok: false, first_ms: null, total_ms: 12, text: null, audio: null, error: errors[service] };
    return errors[service] ? route.fulfill({ json: failed }) : route.continue();
  });
}

test('the synthesiser is tested and played, and the last five tests are listed', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await open('services');
  const one = card(page, 'Synthesiser');
  await expect(one.getByText('ready', { exact: true })).toBeVisible();
  for (let n = 1; n <= 6; n++) {
    await testing(page, 'Synthesiser').click();
    await expect(one.getByRole('row')).toHaveCount(1 + Math.min(n, 5), { timeout: 20_000 });
    await expect(testing(page, 'Synthesiser')).toBeEnabled({ timeout: 20_000 });
  }
  await expect(one).toContainText(new RegExp(`First audio${TIME}`));
  await expect(one).toContainText(new RegExp(`Total${TIME}`));
  await expect(one.locator('dd.text')).not.toHaveText('empty');
  await accessible(page);
  await one.getByRole('button', { name: 'Play' }).click();
  await expect.poll(() => page.evaluate(() => window.loudest), { timeout: 15_000 }).toBeGreaterThan(0.02);
  await page.getByRole('link', { name: 'Home' }).click();
  await page.getByRole('link', { name: 'Services', exact: true }).click();
  await expect(one.getByRole('row')).toHaveCount(6);
  expect(faults).toEqual([]);
});

test('the recogniser and the model are tested', async ({ page, open, faults }) => {
  await open('services');
  await testing(page, 'Recogniser').click();
  await expect(heard(page)).toHaveText(/\S/, { timeout: 20_000 });
  await expect(heard(page)).not.toHaveText('empty');
  await testing(page, 'Language model').focus();
  await page.keyboard.press('Enter');
  const model = card(page, 'Language model');
  await expect(model).toContainText(new RegExp(`First word${TIME}`), { timeout: 20_000 });
  await expect(model.locator('dd.text')).not.toHaveText('empty');
  await accessible(page);
  expect(faults).toEqual([]);
});

test('the microphone is recorded until stopped, at most five seconds, and the transcript is shown', async ({ page, open, faults }) => {
  await open('services');
  const one = card(page, 'Recogniser');
  const lengths = [];
  let loudest = 0;
  page.on('request', (request) => {
    if (!request.url().endsWith('/api/services/test')) return;
    const wav = Buffer.from(request.postDataJSON().recording, 'base64');
    expect(wav.toString('latin1', 0, 4)).toBe('RIFF');
    lengths.push((wav.length - 44) / 32_000);
    for (let at = 44; at < wav.length; at += 2) loudest = Math.max(loudest, Math.abs(wav.readInt16LE(at)));
  });
  await one.getByRole('button', { name: 'Record and test' }).click();
  await expect(one.getByText('Speak now, up to 5 s.')).toBeVisible();
  await expect(one.getByText('4 s left')).toBeVisible();
  await one.getByRole('button', { name: 'Stop and test' }).click();
  await expect(heard(page)).toHaveText(/\S/, { timeout: 20_000 });
  await expect(one.getByRole('row').nth(1)).toContainText('microphone');
  await expect(one.getByRole('button', { name: 'Play recording' })).toBeVisible();
  await one.getByRole('button', { name: 'Record and test' }).click();
  await expect(one.getByText('Speak now, up to 5 s.')).toBeVisible();
  // This takes a while on a busy machine; the recording ends by itself.
  await accessible(page);
  await expect(one.getByRole('row')).toHaveCount(3, { timeout: 30_000 });
  expect(lengths[0]).toBeLessThan(4);
  expect(lengths[1]).toBe(5);
  expect(loudest).toBeGreaterThan(600);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('without microphone access, the screen says why, and the tests work', async ({ page, open, faults }) => {
  await page.addInitScript(() => Object.defineProperty(window, 'isSecureContext', { value: false }));
  await open('services');
  await expect(page.getByText('Microphone access needs HTTPS or localhost.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Record and test' })).toHaveCount(0);
  await testing(page, 'Recogniser').click();
  await expect(heard(page)).toHaveText(/\S/, { timeout: 20_000 });
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a denied microphone is reported with a remedy', async ({ page, open, faults }) => {
  await page.addInitScript(() => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('Permission denied', 'NotAllowedError'));
  });
  await open('services');
  await page.getByRole('button', { name: 'Record and test' }).click();
  await expect(card(page, 'Recogniser').getByRole('alert')).toContainText('Allow it for this page in the browser');
  await accessible(page);
  expect(faults).toEqual([]);
});

test('"Test all" tests one after the other, and estimates a spoken turn', async ({ page, open, faults }) => {
  const asked = [];
  page.on('request', (request) => request.url().endsWith('/api/services/test') && asked.push(request.postDataJSON()));
  await open('services');
  await all(page).click();
  await expect(testing(page, 'Language model')).toBeDisabled();
  await expect(page.getByText(/^A spoken turn would take about \d+\.\d s$/)).toBeVisible({ timeout: 60_000 });
  await expect(page.getByText(/^Estimate: /)).toBeVisible();
  expect(asked).toEqual([{ service: 'tts' }, { service: 'asr' }, { service: 'llm' }]);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a failed service is explained, with the keys to check', async ({ page, open, faults }) => {
  await fail(page, { tts: 'listenai-tts: not authorised', llm: 'openai-llm: unavailable: connection refused' });
  await open('services');
  await all(page).click();
  await expect(page.getByText('A spoken turn would fail: Synthesiser and Language model')).toBeVisible({ timeout: 60_000 });
  const model = card(page, 'Language model');
  await expect(model).toContainText('openai-llm: unavailable: connection refused');
  await expect(model.getByText('llm.base_url')).toBeVisible();
  await expect(model.getByRole('row').nth(1)).toContainText('failed');
  await expect(card(page, 'Synthesiser').getByText('tts.api_key')).toBeVisible();
  await expect(heard(page)).toHaveText(/\S/);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a failed request is shown with a remedy and a retry', async ({ page, open }) => {
  await page.route('**/api/services/test', (route) => route.fulfill({ status: 503, json: { error: { code: 'BUSY', message: 'another test runs' } } }));
  await open('services');
  await testing(page, 'Language model').click();
  const model = card(page, 'Language model');
  await expect(model.getByRole('alert')).toContainText('another test runs');
  await accessible(page);
  await page.unroute('**/api/services/test');
  await model.getByRole('button', { name: 'Try again' }).click();
  await expect(model).toContainText(new RegExp(`First word${TIME}`), { timeout: 20_000 });
  await expect(model.getByRole('alert')).toHaveCount(0);
});

test('results fit a phone, dark and in Chinese', async ({ page, open, faults }) => {
  await fail(page, { asr: `asr: ${'x'.repeat(200)}` });
  await page.setViewportSize({ width: 360, height: 740 });
  await open('services', { language: 'zh', theme: 'dark' });
  await page.getByRole('button', { name: '全部测试' }).click();
  await expect(page.getByText('语音对话无法进行，请检查：语音识别')).toBeVisible({ timeout: 60_000 });
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('Home shows the first steps with the outcome of a test, until they are dismissed', async ({ page, open, faults }) => {
  await forgetDevices();
  await open('home');
  await expect(steps(page).getByRole('listitem')).toHaveCount(4);
  await expect(steps(page)).toContainText('A password is set');
  await accessible(page);
  await steps(page).getByRole('button', { name: 'Connect a board' }).click();
  await expect(card(page, 'Connect a board')).toBeFocused();
  await card(page, 'Connect a board').getByRole('button', { name: 'Test address' }).click();
  await expect(card(page, 'Connect a board')).toContainText(/The server responded in \d+ ms/);
  await steps(page).getByRole('link', { name: 'Test the services' }).click();
  await all(page).click();
  await expect(page.getByText(/^A spoken turn would take about/)).toBeVisible({ timeout: 60_000 });
  await page.getByRole('link', { name: 'Home' }).click();
  await expect(steps(page)).toContainText(/A spoken turn would take about \d+\.\d s/);
  await expect(steps(page).getByRole('listitem').first()).toContainText('done');
  await page.reload();
  await expect(steps(page)).toContainText('A spoken turn would take about');
  await accessible(page);
  await steps(page).getByRole('button', { name: 'Do not show again' }).click();
  await expect(steps(page)).toHaveCount(0);
  await page.reload();
  await expect(page.getByText('No device is connected.')).toBeVisible();
  await expect(steps(page)).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('the first steps disappear once a device was seen', async ({ page, open, request, faults }) => {
  await forgetDevices();
  await open('home', { language: 'zh', theme: 'dark' });
  const list = page.getByRole('region', { name: '开始使用' });
  await expect(list).toBeVisible();
  await accessible(page);
  const headers = { 'device-id': '02:00:00:00:0d:01', 'client-id': '5d3c6f0e-7f5b-4a3e-9c1a-000000000001' };
  expect((await request.post('/xiaozhi/ota/', { headers, data: { application: { version: '2.4.2' }, board: { type: 'test-board' } } })).status()).toBe(200);
  await expect(list).toHaveCount(0, { timeout: 15_000 });
  await forgetDevices();
  expect(faults).toEqual([]);
});

test('after a login with the admin token, the first steps ask for a password if none is set', async ({ page }) => {
  await forgetDevices();
  // The server of these tests has a password.
  const pair = { access_token: 'x', refresh_token: 'y', token_type: 'bearer', expires_in: 900 };
  const figures = { devices: 0, text_clients: 0, museum_sessions: 0 };
  const answers = { login: pair, setup: { password: 'none' } };
  await page.route('**/api/admin/**', (route) => route.fulfill({ json: answers[route.request().url().split('/').at(-1)] ?? figures }));
  await page.route('**/api/account', (route) => route.fulfill({ json: { name: 'admin', right: 'administrator' } }));
  await page.goto('/console/');
  await page.getByRole('button', { name: 'Log in with the admin token instead' }).click();
  await page.getByLabel('Password or admin token').fill(TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(steps(page).getByRole('listitem').last()).toContainText('to do');
  await expect(steps(page)).toContainText('no password is set');
  await expect(steps(page).getByRole('link', { name: 'Choose a password' })).toBeVisible();
  await page.reload();
  await expect(steps(page)).toContainText('no password is set');
  await accessible(page);
});
