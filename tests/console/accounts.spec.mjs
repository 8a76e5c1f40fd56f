// Accounts against a real server: adding accounts, the screens of each access level, changing and deleting accounts,
// the own password. Not for the server's checks: each route has its own tests. Few logins, because the server limits
// them.
import { accessible, administrator, expect, operator, test } from './support.mjs';

const MEMBER = { name: 'anna', password: 'the password of anna' };
const GUEST = { name: 'gus', password: 'the password of gus' };
const CLOSED = ['settings', 'conversations', 'audit'];
const card = (page) => page.getByRole('region', { name: 'Accounts' });
const item = (page, name) => card(page).getByRole('listitem', { name, exact: true });
const why = (form, label) => form.locator('.field', { has: form.page().getByLabel(label, { exact: true }) }).getByRole('alert');
const screens = (page) => page.getByRole('navigation').getByRole('link').allInnerTexts();

/** Adds an account over the API. */
async function add({ name, password }, right) {
  expect((await administrator('POST', '/api/accounts', { name, right, password })).status).toBe(201);
}

async function clear() {
  for (const { name } of [MEMBER, GUEST]) expect([204, 404]).toContain((await administrator('DELETE', `/api/accounts/${name}`)).status);
}

/** Fills the form of a new account. */
async function fill(form, { name, password }, again = password) {
  await form.getByLabel('Name', { exact: true }).fill(name);
  await form.getByLabel('New password', { exact: true }).fill(password);
  await form.getByLabel('Repeat new password').fill(again);
}

async function logIn(page, { name, password }) {
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByLabel('Password or admin token').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** Logs a user in, in a separate browser context. Collects 403 responses and exceptions. */
async function enter(browser, baseURL, person) {
  const context = await browser.newContext({ baseURL, locale: 'en-GB' });
  const page = await context.newPage();
  const faults = [];
  page.on('response', (answer) => answer.status() === 403 && faults.push(`forbidden: ${answer.url()}`));
  page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
  await page.goto('/console/');
  await logIn(page, person);
  await expect(page.getByRole('heading', { name: 'Home', level: 1 })).toBeVisible();
  return { page, faults, close: () => context.close() };
}

/** Opens each screen of the navigation. */
async function visitAll(page) {
  for (const name of await screens(page)) {
    await page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible();
    await expect(page.getByText(/^Loading/)).toHaveCount(0);
    await accessible(page);
  }
}

/** Expects that a member can read a role and a device, without the actions of administrators. */
async function readsOnly(page, request) {
  const id = '02:00:00:00:0e:01';
  const headers = { 'device-id': id, 'client-id': '5d3c6f0e-7f5b-4a3e-9c1a-0000000000e1' };
  await request.post('/xiaozhi/ota/', { headers, data: { application: { version: '2.4.2' }, board: { type: 'test-board' } } });
  const role = JSON.parse((await operator('POST', '/api/roles', { name: 'Clock', system_prompt: 'You are a clock.' })).body);
  await page.goto(`/console/#/roles/${role.id}`);
  await expect(page.getByLabel('Instructions')).toBeDisabled();
  await expect(page.getByRole('button', { name: 'Ask', exact: true })).toBeEnabled();
  await expect(page.getByRole('region', { name: 'Versions' }).getByText('in use')).toBeVisible();
  for (const name of ['Save', 'Add', 'Delete role']) await expect(page.getByRole('button', { name, exact: true })).toHaveCount(0);
  await accessible(page);
  await page.goto(`/console/#/devices/${encodeURIComponent(id)}`);
  await page.getByLabel('Name', { exact: true }).fill('Hall');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Forget device' })).toHaveCount(0);
  for (const path of [`/api/roles/${role.id}`, `/api/devices/${id}`]) expect((await operator('DELETE', path)).status).toBe(204);
}

test.beforeEach(clear);
test.afterAll(clear);

test('an administrator adds a member and a guest; errors are shown at their fields', async ({ page, open, faults }) => {
  await open('settings');
  await card(page).getByRole('button', { name: 'Add account' }).click();
  const form = card(page).getByRole('form', { name: 'Add account' });
  const submit = form.getByRole('button', { name: 'Add', exact: true });
  await expect(form.getByLabel('Name', { exact: true })).toBeFocused();
  await fill(form, { name: 'an na', password: 'short' }, 'other');
  await submit.click();
  await expect(why(form, 'Name')).toContainText('without spaces');
  await expect(why(form, 'New password')).toHaveText('Use 8 to 128 characters.');
  await expect(why(form, 'Repeat new password')).toContainText('differ');
  await expect(form.getByLabel('Name', { exact: true })).toBeFocused();
  await accessible(page);
  expect(faults).toEqual([]);
  await fill(form, { ...MEMBER, name: 'Admin' });
  await submit.click();
  await expect(why(form, 'Name')).toBeVisible();
  // The expected refusal is the only fault.
  expect(faults.filter((fault) => !fault.includes('409'))).toEqual([]);
  faults.length = 0;

  await fill(form, MEMBER);
  await submit.click();
  await expect(card(page).getByText('anna can log in now.')).toBeVisible();
  await expect(item(page, 'anna').getByLabel('Access level of anna')).toHaveValue('member');
  await card(page).getByRole('button', { name: 'Add account' }).click();
  await fill(form, GUEST);
  await form.getByLabel('Access level', { exact: true }).selectOption('guest');
  await form.getByRole('button', { name: 'Show passwords' }).click();
  await expect(form.getByLabel('New password', { exact: true })).toHaveAttribute('type', 'text');
  await submit.click();
  await expect(item(page, 'gus').getByLabel('Access level of gus')).toHaveValue('guest');
  const { accounts } = JSON.parse((await administrator('GET', '/api/accounts')).body);
  expect(accounts.filter(({ name }) => ['anna', 'gus'].includes(name)).map(({ name, right }) => `${name} ${right}`).sort()).toEqual(['anna member', 'gus guest']);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a member and a guest log in, see the screens of their access level, and changes apply at once', async ({ page, open, browser, baseURL, request, faults }) => {
  await add(MEMBER, 'member');
  await add(GUEST, 'guest');
  const member = await enter(browser, baseURL, MEMBER);
  const guest = await enter(browser, baseURL, GUEST);

  await expect(member.page.getByRole('banner').getByRole('link', { name: 'Your account: anna' })).toBeVisible();
  expect(await screens(member.page)).toEqual(expect.arrayContaining(['Home', 'Talk', 'Live', 'History', 'Devices', 'People', 'Roles', 'Services', 'Tools']));
  for (const name of ['Settings', 'Conversations', 'Audit']) expect(await screens(member.page)).not.toContain(name);
  expect(await screens(guest.page)).toEqual(['Home', 'Talk', 'Devices']);
  await visitAll(member.page);
  await visitAll(guest.page);
  await expect(guest.page.getByRole('button', { name: 'Bind' })).toHaveCount(0);

  await readsOnly(member.page, request);
  for (const screen of CLOSED) {
    await member.page.goto(`/console/#/${screen}`);
    await expect(member.page.getByText('Only administrators can see this.')).toBeVisible();
  }
  await accessible(member.page);
  await guest.page.goto('/console/#/settings');
  await expect(guest.page.getByText('Only administrators can see this.')).toBeVisible();
  await guest.page.goto('/console/#/history');
  await expect(guest.page.getByText('Only members and administrators can see this.')).toBeVisible();
  // Data of closed screens was not requested.
  expect([...member.faults, ...guest.faults]).toEqual([]);

  await open('settings');
  await item(page, 'anna').getByLabel('Access level of anna').selectOption('guest');
  await item(page, 'anna').getByRole('button', { name: 'Save' }).click();
  await expect(item(page, 'anna').getByText('Saved.')).toBeVisible();
  await member.page.goto('/console/#/live');
  await member.page.reload();
  await expect(member.page.getByText('Only members and administrators can see this.')).toBeVisible();
  expect(await screens(member.page)).toEqual(['Home', 'Talk', 'Devices']);

  await item(page, 'gus').getByRole('button', { name: 'Delete account' }).click();
  await accessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Delete account' }).click();
  await expect(item(page, 'gus')).toHaveCount(0);
  await guest.page.goto('/console/#/devices');
  await expect(guest.page.getByText('Your session has ended. Log in again.')).toBeVisible();
  await member.close();
  await guest.close();
  expect(faults).toEqual([]);
});

test('users change their own password, and an administrator sets a new one', async ({ page, open, browser, baseURL, faults }) => {
  const next = { ...GUEST, password: 'another password of gus' };
  await add(GUEST, 'guest');
  const guest = await enter(browser, baseURL, GUEST);
  await guest.page.getByRole('link', { name: 'Your account: gus' }).click();
  await expect(guest.page.getByRole('heading', { name: 'Your account', level: 1 })).toBeVisible();
  await guest.page.getByRole('button', { name: 'Change password' }).click();
  await accessible(guest.page);
  await guest.page.getByLabel('Current password').fill(GUEST.password);
  await guest.page.getByLabel('New password', { exact: true }).fill(next.password);
  await guest.page.getByLabel('Repeat new password').fill(next.password);
  await guest.page.getByRole('button', { name: 'Set password' }).click();
  await expect(guest.page.getByText('Password changed.')).toBeVisible();
  await guest.page.reload();
  await expect(guest.page.getByRole('link', { name: 'Your account: gus' })).toBeVisible();
  await guest.page.getByRole('button', { name: 'Log out' }).click();
  await logIn(guest.page, GUEST);
  await expect(guest.page.getByRole('alert')).toContainText('Wrong name or password.');
  await logIn(guest.page, next);
  await expect(guest.page.getByRole('link', { name: 'Your account: gus' })).toBeVisible();

  await open('settings');
  await item(page, 'gus').getByRole('button', { name: 'Set new password' }).click();
  const form = page.getByRole('form', { name: 'New password of gus' });
  await form.getByLabel('New password', { exact: true }).fill('a third password');
  await form.getByLabel('Repeat new password').fill('a third password');
  await accessible(page);
  await form.getByRole('button', { name: 'Set password' }).click();
  await expect(item(page, 'gus').getByText('New password set.')).toBeVisible();
  await expect(form).toHaveCount(0);
  // A new password ends the sessions of that user.
  await guest.page.goto('/console/#/devices');
  await expect(guest.page.getByText('Your session has ended. Log in again.')).toBeVisible();
  expect(guest.faults).toEqual([]);
  await guest.close();
  expect(faults).toEqual([]);
});

test('the card fits a phone, dark and in Chinese', async ({ page, open, faults }) => {
  await add(MEMBER, 'member');
  await page.setViewportSize({ width: 360, height: 740 });
  await open('settings', { language: 'zh', theme: 'dark' });
  await page.getByRole('button', { name: '设置新密码' }).click();
  await page.getByRole('button', { name: '添加账户' }).click();
  await expect(page.getByRole('form', { name: '添加账户' })).toBeVisible();
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  expect(faults).toEqual([]);
});
