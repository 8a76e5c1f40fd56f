// The first run, changing the password, and the note without one. The API is mocked, because a real password would lock
// out the other tests. Not for the server's handling of codes and passwords.
import { accessible, expect, test } from './support.mjs';

const PAIR = { access_token: 'first', refresh_token: 'later', token_type: 'bearer', expires_in: 900 };
const refusal = (status, message = 'refused') => ({ status, json: { error: { code: `HTTP_${status}`, message } } });
const code = (page) => page.getByLabel('Code from the server log');
const fresh = (page) => page.getByLabel('New password', { exact: true });
const again = (page) => page.getByLabel('Repeat new password');
const submit = (page) => page.getByRole('button', { name: /^Set password/ });
const why = (page, field) => page.locator('.field', { has: field }).getByRole('alert');

/** Mocks the password routes. Returns the mock, which collects requests; `state` and `answer` may be changed. */
async function standIn(page, state) {
  const server = { state, answer: { json: PAIR }, sent: [] };
  for (const path of ['**/api/admin/setup', '**/api/admin/password']) {
    await page.route(path, (route) => {
      const request = route.request();
      if (request.method() === 'GET') return route.fulfill({ json: { password: server.state } });
      server.sent.push({ ...request.postDataJSON(), bearer: request.headers().authorization ?? null });
      if (server.answer.json === PAIR) server.state = 'set';
      return route.fulfill(server.answer);
    });
  }
  return server;
}

/** Mocks the other routes, which accept the tokens of the mock. */
async function openAll(page) {
  await page.route('**/api/account', (route) => route.fulfill({ json: { name: 'admin', right: 'administrator' } }));
  await page.route('**/api/devices?limit=*', (route) => route.fulfill({ json: { devices: [], next: null } }));
  await page.route('**/api/admin/config', (route) => route.fulfill({ json: { settings: {}, sources: {} } }));
  await page.route('**/api/admin/metrics', (route) => route.fulfill({ json: { devices: 0, text_clients: 0, museum_sessions: 0 } }));
  await page.route('**/api/admin/audit?*', (route) => route.fulfill({ json: { entries: [], next: null } }));
  await page.route('**/api/admin/sessions?*', (route) => route.fulfill({ json: { sessions: [], total: 0, offset: 0, limit: 50 } }));
}

async function type(page, values) {
  if (values.code !== undefined) await code(page).fill(values.code);
  await fresh(page).fill(values.password ?? 'a good password');
  await again(page).fill(values.again ?? values.password ?? 'a good password');
}

for (const [language, title] of [['en', 'Choose a password'], ['zh', '设置密码']]) {
  for (const theme of ['light', 'dark']) {
    test(`the first run, ${language}, ${theme}`, async ({ page, faults }) => {
      await standIn(page, 'none');
      await page.addInitScript(([tongue, colours]) => {
        localStorage.setItem('hearken.language', tongue);
        localStorage.setItem('hearken.theme', colours);
      }, [language, theme]);
      await page.setViewportSize({ width: 360, height: 740 });
      await page.goto('/console/');
      await expect(page.getByRole('heading', { name: title })).toBeVisible();
      await expect(page).toHaveTitle(`${title} · Hearken`);
      await accessible(page);
      await page.locator('button.main').click();
      await expect(page.getByRole('alert')).toHaveCount(3);
      await accessible(page);
      const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      expect(content).toBeLessThanOrEqual(width);
      expect(faults).toEqual([]);
    });
  }
}

test('a code and a password log in and lead to Home', async ({ page, faults }) => {
  const server = await standIn(page, 'none');
  await openAll(page);
  await page.goto('/console/#/settings');
  await type(page, { code: '4821 9035' });
  await submit(page).click();
  await expect(page.getByRole('heading', { name: 'Home', level: 1 })).toBeVisible();
  await expect(page).toHaveURL(/#\/home$/);
  expect(server.sent).toEqual([{ code: '4821-9035', password: 'a good password', bearer: null }]);
  const kept = JSON.parse(await page.evaluate(() => sessionStorage.getItem('hearken.session')));
  expect(kept.tokens).toMatchObject({ access: 'first', refresh: 'later' });
  expect(kept.operator).toEqual({ kind: 'access' });
  await expect(page.getByText('No password is set')).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('the code in the address is filled in and removed from the address', async ({ page, faults }) => {
  await standIn(page, 'none');
  await page.goto('/console/#/setup?code=48219035');
  await expect(code(page)).toHaveValue('4821-9035');
  await expect(page).toHaveURL(/\/console\/#\/home$/);
  // The same while the page is open.
  await page.evaluate(() => (location.hash = '#/setup?code=1111-2222'));
  await expect(code(page)).toHaveValue('1111-2222');
  await expect(page).toHaveURL(/\/console\/#\/home$/);
  expect(faults).toEqual([]);
});

test('invalid input is reported at its field before anything is sent', async ({ page }) => {
  const server = await standIn(page, 'none');
  await page.goto('/console/');
  await type(page, { code: '4821', password: 'short', again: 'other' });
  await submit(page).click();
  await expect(why(page, code(page))).toContainText('eight digits');
  await expect(why(page, fresh(page))).toHaveText('Use 8 to 128 characters.');
  await expect(why(page, again(page))).toContainText('differ');
  await expect(code(page)).toBeFocused();
  await expect(code(page)).toHaveAttribute('aria-invalid', 'true');
  await code(page).fill('48219035');
  await expect(why(page, code(page))).toHaveCount(0);
  await submit(page).click();
  await expect(fresh(page)).toBeFocused();
  await type(page, { password: 'ends with a space ' });
  await submit(page).click();
  await expect(why(page, fresh(page))).toContainText('space');
  expect(server.sent).toEqual([]);
});

test('refusals of the server are shown at their field, or with the next step', async ({ page }) => {
  const server = await standIn(page, 'none');
  await page.goto('/console/');
  await type(page, { code: '48219035' });
  server.answer = refusal(401);
  await submit(page).click();
  await expect(why(page, code(page))).toContainText('restart the server');
  await expect(code(page)).toBeFocused();
  server.answer = refusal(429);
  await submit(page).click();
  await expect(why(page, code(page))).toContainText('Too many attempts');
  server.answer = refusal(400, 'the password has 8 to 128 characters');
  await submit(page).click();
  await expect(why(page, fresh(page))).toHaveText('the password has 8 to 128 characters');
  await expect(fresh(page)).toBeFocused();
  server.answer = refusal(409);
  await submit(page).click();
  await expect(page.getByRole('alert')).toContainText('already has a password');
  await accessible(page);
  server.state = 'set';
  await page.getByRole('button', { name: 'Log in with it' }).click();
  await expect(page.getByLabel('Password or admin token')).toBeFocused();
  await expect(page.getByRole('button', { name: 'Choose a password instead' })).toHaveCount(0);
});

test('the passwords can be shown, and the admin token can log in instead', async ({ page }) => {
  await standIn(page, 'none');
  await page.goto('/console/');
  for (const field of [fresh(page), again(page)]) await expect(field).toHaveAttribute('autocomplete', 'new-password');
  await page.getByRole('button', { name: 'Show passwords' }).click();
  for (const field of [fresh(page), again(page)]) await expect(field).toHaveAttribute('type', 'text');
  await page.getByRole('button', { name: 'Hide passwords' }).click();
  await expect(fresh(page)).toHaveAttribute('type', 'password');
  await page.getByRole('button', { name: 'Log in with the admin token instead' }).click();
  await expect(page.getByLabel('Password or admin token')).toBeFocused();
  await accessible(page);
  await page.getByRole('button', { name: 'Choose a password instead' }).click();
  await expect(code(page)).toBeFocused();
});

for (const [name, answer] of [
  ['a password was chosen', { json: { password: 'set' } }],
  ['the password is configured', { json: { password: 'configured' } }],
  ['the server does not reveal it', refusal(403)],
]) {
  test(`the login is shown if ${name}`, async ({ page }) => {
    await page.route('**/api/admin/setup', (route) => route.fulfill(answer));
    await page.goto('/console/');
    await expect(page.getByLabel('Password or admin token')).toBeVisible();
    await expect(page.getByRole('button', { name: 'Choose a password instead' })).toHaveCount(0);
  });
}

test('a note on every screen leads to the card, until it is dismissed', async ({ page, open, faults }) => {
  await standIn(page, 'none');
  const note = page.getByRole('region', { name: 'No password' });
  await open('devices');
  await expect(note).toContainText('No password is set');
  await accessible(page);
  await note.getByRole('link', { name: 'Choose a password' }).click();
  const card = page.getByRole('region', { name: 'Your password' });
  await expect(card).toBeFocused();
  await expect(card.getByLabel('Admin token')).toBeVisible();
  await expect(card).toContainText('not set');
  await accessible(page);
  await note.getByRole('button', { name: 'Dismiss' }).click();
  await expect(note).toHaveCount(0);
  await expect(page.locator('main')).toBeFocused();
  await page.reload();
  await expect(card).toBeVisible();
  await expect(note).toHaveCount(0);
  expect(faults).toEqual([]);
});

test('setting the first password with the admin token removes the note', async ({ page, open, faults }) => {
  const server = await standIn(page, 'none');
  await openAll(page);
  await open('account');
  const { tokens } = JSON.parse(process.env.CONSOLE_KEPT);
  await page.getByLabel('Admin token').fill('the token ');
  await type(page, {});
  await submit(page).click();
  await expect(page.getByText('Password changed.')).toBeVisible();
  await expect(page.getByText('No password is set')).toHaveCount(0);
  expect(server.sent).toEqual([{ current: 'the token', password: 'a good password', bearer: `Bearer ${tokens.access}` }]);
  expect(faults).toEqual([]);
});

test('the password is changed, and the session continues with the new tokens', async ({ page, open, faults }) => {
  const server = await standIn(page, 'set');
  await openAll(page);
  const bearers = [];
  page.on('request', (request) => {
    if (request.url().includes('/api/admin/audit')) bearers.push(request.headers().authorization);
  });
  await page.setViewportSize({ width: 360, height: 740 });
  await open('account');
  await page.getByRole('button', { name: 'Change password' }).click();
  await accessible(page);
  await page.getByLabel('Current password').fill('the old password');
  await type(page, { again: 'another password' });
  await submit(page).click();
  await expect(why(page, again(page))).toContainText('differ');
  await again(page).fill('a good password');
  server.answer = refusal(401);
  await submit(page).click();
  await expect(why(page, page.getByLabel('Current password'))).toContainText('not the current password');
  await expect(page.getByLabel('Current password')).toBeFocused();
  await accessible(page);
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  server.answer = { json: PAIR };
  await submit(page).click();
  await expect(page.getByText('Password changed.')).toBeVisible();
  await page.getByRole('link', { name: 'Audit' }).click();
  await expect.poll(() => bearers.at(-1)).toBe('Bearer first');
  expect(server.sent.at(-1)).toMatchObject({ current: 'the old password', password: 'a good password' });
  const kept = JSON.parse(await page.evaluate(() => sessionStorage.getItem('hearken.session')));
  expect(kept.tokens).toMatchObject({ access: 'first', refresh: 'later' });
  expect(kept.operator.kind).toBe('token');
  // The expected refusal is the only fault.
  expect(faults.filter((fault) => !fault.includes('401'))).toEqual([]);
});

test('a configured password cannot be changed here', async ({ page, open }) => {
  const server = await standIn(page, 'configured');
  await openAll(page);
  await open('account');
  const card = page.getByRole('region', { name: 'Your password' });
  await expect(card).toContainText('config.toml');
  await expect(card.getByRole('button')).toHaveCount(0);
  await accessible(page);
  // If the server does not reveal the state, its refusal does.
  server.state = 'unknown';
  await page.reload();
  await card.getByRole('button', { name: 'Change password' }).click();
  await card.getByLabel('Current password').fill('the old password');
  await type(page, {});
  server.answer = refusal(409);
  await submit(page).click();
  await expect(card).toContainText('config.toml');
});
