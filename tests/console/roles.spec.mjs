// Roles against a real server: adding one from a template, trials, changes, versions, assignment to the page of Talk,
// refusals and deletion. Not for the effect of a role on conversations, nor for default roles: see
// roles-for-all.spec.mjs.
import { accessible, expect, operator, test, TOKEN } from './support.mjs';

const STORY = 'Bedtime stories for children';
const body = async (path) => JSON.parse((await operator('GET', path)).body);
const named = async (name) => (await body('/api/roles')).roles.find((role) => role.name === name);
const adding = (page) => page.getByRole('form', { name: 'Add a role' });
const form = (page, name) => page.getByRole('form', { name, exact: true });
const save = (page) => page.getByRole('button', { name: 'Save', exact: true });
const discard = (page) => page.getByRole('button', { name: 'Discard changes' });

/** Adds a role over the API, and returns its id. */
async function made(name, fields = {}) {
  const { status, body: text } = await operator('POST', '/api/roles', { name, ...fields });
  expect(status).toBe(201);
  return JSON.parse(text).id;
}

/** Deletes all roles. */
async function clear() {
  for (const role of (await body('/api/roles')).roles) expect((await operator('DELETE', `/api/roles/${role.id}`)).status).toBe(204);
}

test.beforeEach(clear);
test.afterAll(clear);

test('a role is added from a template; a taken name is reported at its field', async ({ page, open, faults }) => {
  await open('roles');
  await expect(page.getByText('No roles yet')).toBeVisible();
  await adding(page).getByLabel(STORY).check();
  await expect(adding(page).getByText('You tell bedtime stories')).toBeVisible();
  await expect(adding(page).getByLabel('Role name')).toHaveValue(STORY);
  await accessible(page);
  await adding(page).getByRole('button', { name: 'Add' }).click();
  await expect(form(page, STORY).getByLabel('Instructions')).toHaveValue(/^You tell bedtime stories/);
  await expect(page.getByText(/^\d+ of 8,000 characters$/)).toBeVisible();
  await expect(page.getByRole('region', { name: 'Versions' })).toContainText('Role created.');
  await expect(page.getByRole('region', { name: 'Versions' }).getByText('in use')).toBeVisible();
  await accessible(page);
  expect(faults).toEqual([]);

  await adding(page).getByLabel('English teacher').check();
  await adding(page).getByLabel('Role name').fill(STORY);
  await adding(page).getByRole('button', { name: 'Add' }).click();
  const field = adding(page).getByLabel('Role name');
  await expect(adding(page).locator('.field', { has: page.getByLabel('Role name') }).getByRole('alert')).toContainText('Another role has this name.');
  await expect(field).toHaveAttribute('aria-invalid', 'true');
  await expect(field).toHaveValue(STORY);
  await accessible(page);
  expect((await body('/api/roles')).roles).toHaveLength(1);
});

test('the templates are in the language of the page', async ({ page, open, faults }) => {
  await open('roles', { language: 'zh', theme: 'dark' });
  await page.getByLabel('英语老师').check();
  await page.getByRole('button', { name: '添加', exact: true }).click();
  await expect(page.getByLabel('提示词')).toHaveValue(/^你是一位有耐心的英语老师/);
  await accessible(page);
  expect((await named('英语老师')).system_prompt).toContain('学生');
  expect(faults).toEqual([]);
});

test('a role is tried twice with the values of the form, with the replies side by side', async ({ page, open, faults }) => {
  const id = await made('Radio', { system_prompt: 'You are a radio.' });
  await open(`roles/${id}`);
  const trial = page.getByRole('region', { name: 'Try it out' });
  await trial.getByLabel('Message').fill('Good evening');
  await trial.getByRole('button', { name: 'Ask' }).click();
  const [first, second] = [1, 2].map((number) => trial.getByRole('article').filter({ hasText: `Attempt ${number}` }));
  await expect(first).toContainText(/First word\s*[\d.]+ (ms|s)/, { timeout: 20_000 });
  await form(page, 'Radio').getByLabel('Instructions').fill('You are a clock.');
  await form(page, 'Radio').getByLabel('Temperature').fill('0');
  const sent = page.waitForRequest('**/api/roles/try');
  await trial.getByRole('button', { name: 'Ask' }).click();
  expect((await sent).postDataJSON()).toEqual({ text: 'Good evening', system_prompt: 'You are a clock.', temperature: 0 });
  await expect(second).toContainText(/Total\s*[\d.]+ (ms|s)/, { timeout: 20_000 });
  await expect(second).toContainText('Unsaved: Instructions, Temperature');
  await expect(trial.getByRole('article')).toHaveCount(2);
  const [left, right] = [await first.boundingBox(), await second.boundingBox()];
  expect(left.y).toBe(right.y);
  await accessible(page);
  await first.getByRole('button', { name: 'Remove' }).click();
  await expect(trial.getByRole('article')).toHaveCount(1);
  expect((await body(`/api/roles/${id}`)).version).toBe(1);
  await discard(page).click();
  expect(faults).toEqual([]);
});

test('a failed trial is shown with a remedy', async ({ page, open }) => {
  const id = await made('Radio');
  await open(`roles/${id}`);
  await page.route('**/api/roles/try', (route) => route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'the model does not answer' } } }));
  const trial = page.getByRole('region', { name: 'Try it out' });
  await trial.getByLabel('Message').fill('Good evening');
  await trial.getByRole('button', { name: 'Ask' }).click();
  await expect(trial.getByRole('alert')).toContainText('the model does not answer');
});

test('a role is changed in every field, and an earlier version is restored', async ({ page, open, faults }) => {
  const id = await made('Radio', { system_prompt: 'You are a radio. You speak slowly. You are kind.' });
  await open(`roles/${id}`);
  const fields = form(page, 'Radio');
  await expect(save(page)).toBeDisabled();
  await expect(fields.getByLabel('Model', { exact: true })).toHaveAttribute('placeholder', /Server default/);
  await fields.getByLabel('Instructions').fill('You are a radio. You speak fast. You are kind.');
  await fields.getByLabel('Model', { exact: true }).fill('small');
  await fields.getByLabel('Temperature').fill('0.3');
  await fields.getByLabel('Max output tokens').fill('200');
  await fields.getByLabel('Voice').fill('anna');
  await fields.getByLabel('Reply language').selectOption('zh');
  await fields.getByRole('switch', { name: 'builtin' }).uncheck();
  await fields.getByLabel('When the user speaks').selectOption('Stop on any voice');
  await fields.getByRole('switch', { name: 'Remember' }).uncheck();
  await fields.getByLabel('Store per turn').selectOption('text');
  await expect(fields.getByText('Inform the people who talk to the devices')).toBeVisible();
  await fields.getByLabel('Tokens per day').fill('5000');
  await fields.getByLabel('Seconds of speech per day').fill('3600');
  await fields.getByLabel('Cost per day').fill('0.5');
  await expect(fields.getByText(/^Unsaved: Instructions, Model,/)).toBeVisible();
  await accessible(page);
  await save(page).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  expect(await body(`/api/roles/${id}`)).toMatchObject({
    version: 2, model: 'small', temperature: 0.3, max_tokens: 200, voice: 'anna', language: 'zh', tools_off: ['builtin'],
    interruption: 'cut', memory: false, history: 'text', daily_tokens: 5_000, daily_seconds: 3_600, daily_cost: 0.5,
  });

  const versions = page.getByRole('region', { name: 'Versions' });
  const second = versions.getByRole('listitem').first();
  await expect(second).toContainText('Version 2');
  await expect(second.locator('del', { hasText: 'You speak slowly.' })).toBeVisible();
  await expect(second.locator('ins', { hasText: 'You speak fast.' })).toBeVisible();
  await expect(second.locator('ins', { hasText: 'small' })).toBeVisible();
  await expect(second.locator('del', { hasText: 'no limit' })).toHaveCount(3);
  await expect(second.locator('ins', { hasText: '5,000' })).toBeVisible();
  await accessible(page);
  await fields.getByLabel('Voice').fill('bert');
  await expect(versions.getByRole('button', { name: 'Restore: Version 1' })).toBeDisabled();
  await discard(page).click();
  await expect(fields.getByLabel('Voice')).toHaveValue('anna');
  await versions.getByRole('button', { name: 'Restore: Version 1' }).click();
  await expect(versions.getByRole('listitem').first()).toContainText('Version 3');
  await expect(fields.getByLabel('Instructions')).toHaveValue('You are a radio. You speak slowly. You are kind.');
  await expect(fields.getByLabel('Reply language')).toHaveValue('');
  await expect(fields.getByRole('switch', { name: 'builtin' })).toBeChecked();
  await expect(save(page)).toBeDisabled();
  expect(await body(`/api/roles/${id}`)).toMatchObject({ version: 3, model: '', temperature: null, tools_off: [], memory: true, history: null, daily_tokens: null, daily_seconds: null, daily_cost: null });
  expect(faults).toEqual([]);
});

test('changes survive a refusal and an unreachable server', async ({ page, open }) => {
  await made('Clock');
  const id = await made('Radio');
  await open(`roles/${id}`);
  const fields = form(page, 'Radio');
  const name = fields.getByLabel('Role name');
  await name.fill('Clock');
  await fields.getByLabel('Instructions').fill('You are a clock.');
  await save(page).click();
  await expect(fields.locator('.field', { has: page.getByLabel('Role name') }).getByRole('alert')).toContainText('Another role has this name.');
  await expect(name).toHaveAttribute('aria-invalid', 'true');
  await expect(fields.getByLabel('Instructions')).toHaveValue('You are a clock.');
  await accessible(page);
  await name.fill('Watch');
  await page.route(`**/api/roles/${id}`, (route) => route.abort());
  await save(page).click();
  await expect(fields.getByRole('alert')).toContainText('The server cannot be reached');
  await expect(fields.getByText('Unsaved: Role name, Instructions')).toBeVisible();
  await page.unroute(`**/api/roles/${id}`);
  await save(page).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  expect(await body(`/api/roles/${id}`)).toMatchObject({ name: 'Watch', system_prompt: 'You are a clock.', version: 2 });
});

test('changes survive a session that ends while they are saved', async ({ page, open }) => {
  const id = await made('Radio');
  await open(`roles/${id}`);
  await form(page, 'Radio').getByLabel('Instructions').fill('You are a clock.');
  await page.route(`**/api/roles/${id}`, (route) => route.fulfill({ status: 401, json: { error: { code: 'UNAUTHORIZED', message: 'no' } } }));
  await save(page).click();
  await expect(page.getByText('Your session has ended.')).toBeVisible();
  await page.unroute(`**/api/roles/${id}`);
  // The server limits logins.
  await page.route('**/api/admin/login', (route) => route.fulfill({ status: 401, json: { error: { code: 'UNAUTHORIZED', message: 'no' } } }));
  await page.getByLabel('Password or admin token').fill(TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(form(page, 'Radio').getByLabel('Instructions')).toHaveValue('You are a clock.');
  await save(page).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  expect((await body(`/api/roles/${id}`)).system_prompt).toBe('You are a clock.');
});

test('leaving with unsaved changes asks for confirmation, also before logging out', async ({ page, open, faults }) => {
  const id = await made('Radio');
  await open(`roles/${id}`);
  const prompt = form(page, 'Radio').getByLabel('Instructions');
  await prompt.fill('You are a clock.');
  await page.getByRole('link', { name: 'Devices', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Unsaved changes will be lost: Instructions');
  await accessible(page);
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  await expect(prompt).toHaveValue('You are a clock.');
  expect(new URL(page.url()).hash).toBe(`#/roles/${id}`);
  await page.getByRole('button', { name: 'Log out' }).click();
  await dialog.getByRole('button', { name: 'Stay here' }).click();
  await expect(prompt).toHaveValue('You are a clock.');
  await page.getByRole('link', { name: 'Devices', exact: true }).click();
  await dialog.getByRole('button', { name: 'Leave without saving' }).click();
  await expect(page.locator('main h1')).toHaveText('Devices');
  await page.goBack();
  await expect(prompt).toHaveValue('');
  expect((await body(`/api/roles/${id}`)).version).toBe(1);
  expect(faults).toEqual([]);
});

test('the page of Talk gets a role, and deleting the role lists its holders', async ({ page, open, faults }) => {
  const id = await made('Radio', { system_prompt: 'You are a radio.' });
  await open('talk');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(page.locator('.head .badge[role=status]')).toHaveText('idle', { timeout: 15_000 });
  const device = await page.evaluate(() => localStorage.getItem('hearken.device_id'));
  await page.getByRole('link', { name: 'Roles' }).click();
  const item = page.getByRole('link', { name: /^Radio/ });
  await expect(item).toContainText('No devices');
  await item.click();
  const holders = page.getByRole('region', { name: 'Devices and people with this role' });
  const box = holders.getByRole('checkbox', { name: new RegExp(device) });
  await box.check();
  await expect(holders.getByRole('status')).toContainText('has this role.');
  await expect(item).toContainText(/Devices: /);
  expect((await body(`/api/devices/${device}`)).role).toBe(id);
  await accessible(page);
  await box.uncheck();
  await expect(holders.getByRole('status')).toContainText('has no role');
  expect((await body(`/api/devices/${device}`)).role).toBeNull();

  await page.goto(`/console/#/devices/${encodeURIComponent(device)}`);
  await page.getByLabel('Role', { exact: true }).selectOption('Radio');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  expect((await body(`/api/devices/${device}`)).role).toBe(id);
  await accessible(page);

  await page.getByRole('link', { name: 'Talk' }).click();
  await page.getByLabel('Type a message').fill('Good evening');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 20_000 });

  await page.goto(`/console/#/roles/${id}`);
  await page.getByRole('button', { name: 'Delete role' }).click();
  const dialog = page.getByRole('dialog');
  const { name } = await body(`/api/devices/${device}`);
  await expect(dialog).toContainText(`return to the server default: ${name || device}`);
  await accessible(page);
  await dialog.getByRole('button', { name: 'Delete role' }).click();
  await expect(page.getByText('No roles yet')).toBeVisible();
  expect((await operator('GET', `/api/roles/${id}`)).status).toBe(404);
  expect((await body(`/api/devices/${device}`)).role).toBeNull();
  expect(faults).toEqual([]);
});

test('a person gets a role on both screens', async ({ page, open, faults }) => {
  const id = await made('Radio');
  // Enrolling requires a speaker model, which is not configured.
  const anna = { id: 'anna', name: 'Anna', recordings: 3, facts: [], role: null };
  const sent = [];
  await page.route('**/api/persons', (route) => route.fulfill({ json: { persons: [anna] } }));
  await page.route('**/api/persons/anna', (route) => {
    if (route.request().method() === 'PATCH') Object.assign(anna, sent[sent.push(route.request().postDataJSON()) - 1]);
    return route.fulfill({ json: { ...anna, exchanges: [] } });
  });
  await open(`roles/${id}`);
  await page.getByRole('checkbox', { name: 'Anna' }).check();
  await expect(page.getByRole('link', { name: /^Radio/ })).toContainText('People: Anna');
  await page.getByRole('link', { name: 'People', exact: true }).click();
  await page.getByRole('link', { name: 'Anna', exact: true }).click();
  await expect(page.getByLabel('Role', { exact: true })).toHaveValue(id);
  await page.getByLabel('Role', { exact: true }).selectOption('None (server default)');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await accessible(page);
  expect(sent).toEqual([{ role: id }, { role: null }]);
  expect(faults).toEqual([]);
});

test('a role fits a phone, dark and in Chinese, and is reached by keyboard', async ({ page, open, faults }) => {
  const id = await made('收音机', { system_prompt: 'x'.repeat(300), tools_off: ['a source that is gone'] });
  await operator('PATCH', `/api/roles/${id}`, { system_prompt: 'y'.repeat(300), model: 'm'.repeat(60) });
  await page.setViewportSize({ width: 360, height: 740 });
  await open('roles', { language: 'zh', theme: 'dark' });
  await page.getByRole('link', { name: /^收音机/ }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('region', { name: '版本' }).getByText('使用中')).toBeVisible();
  await expect(page.getByText('当前不可用')).toBeVisible();
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('the address of a deleted role is reported', async ({ page, open, faults }) => {
  await made('Radio');
  await open('roles/00000000-0000-0000-0000-000000000000');
  await expect(page.getByRole('alert')).toContainText('This role no longer exists.');
  await accessible(page);
  expect(faults).toEqual([]);
});
