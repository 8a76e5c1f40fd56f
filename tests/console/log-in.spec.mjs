// Login with the password and with the admin token, refusals, adding the other credential, logout, and refreshed tokens.
import { createServer, request } from 'node:http';
import { accessible, expect, PASSWORD, test, TOKEN } from './support.mjs';

const field = (page) => page.getByLabel('Password or admin token');

test('a wrong password is reported with a remedy', async ({ page }) => {
  await page.goto('/console/');
  await accessible(page);
  await field(page).fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('alert')).toContainText('Wrong password or admin token');
  await accessible(page);
});

test('the password opens the settings, and then the admin token the devices', async ({ page }) => {
  await page.goto('/console/#/settings');
  await field(page).fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByText('llm.temperature')).toBeVisible();
  await page.getByRole('link', { name: 'Devices' }).click();
  const locked = page.getByLabel('Admin token');
  const opened = page.getByRole('heading', { name: 'Known devices' });
  await expect(locked.or(opened)).toBeVisible();
  if (await locked.isVisible()) {
    await locked.fill(TOKEN);
    await page.getByRole('button', { name: 'Unlock' }).click();
  }
  await expect(opened).toBeVisible();
  await page.reload();
  await expect(opened).toBeVisible();
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect(field(page)).toBeVisible();
  expect(await page.evaluate(() => sessionStorage.getItem('hearken.session'))).toBeNull();
});

test('the admin token opens the devices, and the settings ask for the password', async ({ page }) => {
  await page.goto('/console/#/devices');
  await field(page).fill(TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('heading', { name: 'Known devices' })).toBeVisible();
  await page.getByRole('link', { name: 'Settings' }).click();
  await expect(page.getByText('llm.temperature').or(page.getByLabel('Password', { exact: true }))).toBeVisible();
});

test('an expired session leads to the login', async ({ page, open }) => {
  await open('settings');
  await page.evaluate(() => {
    const kept = JSON.parse(sessionStorage.getItem('hearken.session'));
    kept.tokens.access = 'x.y.z';
    kept.tokens.refresh = 'x.y.z';
    sessionStorage.setItem('hearken.session', JSON.stringify(kept));
  });
  await page.evaluate(() => sessionStorage.getItem('hearken.session'));
  await page.route('**/api/admin/**', (route) => route.fulfill({ status: 401, json: { error: { code: 'UNAUTHORIZED', message: 'over' } } }));
  await page.getByRole('link', { name: 'Audit' }).click();
  await expect(page.getByText('Your session has ended. Log in again.')).toBeVisible();
});

test('tokens are refreshed once before they expire, and the new ones are used', async ({ page, open }) => {
  const asked = [];
  const kept = JSON.parse(process.env.CONSOLE_KEPT);
  await page.route('**/api/admin/refresh', (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ json: { access_token: 'next', refresh_token: 'later', token_type: 'bearer', expires_in: 900 } });
  });
  const bearers = [];
  await page.route('**/api/admin/config', (route) => {
    bearers.push(route.request().headers().authorization);
    return route.fulfill({ json: { settings: {}, sources: {} } });
  });
  await page.route('**/api/account', (route) => route.fulfill({ json: { name: 'admin', right: 'administrator' } }));
  await page.route('**/api/accounts', (route) => route.fulfill({ json: { accounts: [] } }));
  kept.tokens.expires = Date.now() + 5_000;
  process.env.CONSOLE_KEPT = JSON.stringify(kept);
  try {
    await open('settings');
    await expect.poll(() => bearers).toEqual(['Bearer next']);
  } finally {
    process.env.CONSOLE_KEPT = JSON.stringify({ ...kept, tokens: { ...kept.tokens, expires: Date.now() + 900_000 } });
  }
  expect(asked).toEqual([{ refresh_token: kept.tokens.refresh }]);
  expect(JSON.parse(await page.evaluate(() => sessionStorage.getItem('hearken.session'))).tokens.refresh).toBe('later');
});

test('the page works behind a proxy with a path prefix', async ({ page, baseURL }) => {
  const proxy = createServer((from, to) => {
    if (!from.url.startsWith('/voice/')) return to.writeHead(404).end();
    const url = new URL(from.url.slice('/voice'.length), baseURL);
    const passed = request(url, { method: from.method, headers: { ...from.headers, host: url.host } }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    return from.pipe(passed);
  });
  await new Promise((listens) => proxy.listen(0, '127.0.0.1', listens));
  try {
    await page.goto(`http://127.0.0.1:${proxy.address().port}/voice/console`);
    await expect(page).toHaveURL(/\/voice\/console\/$/);
    await expect(field(page)).toBeVisible();
  } finally {
    proxy.closeAllConnections();
    await new Promise((ends) => proxy.close(ends));
  }
});
