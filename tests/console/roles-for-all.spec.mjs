// Default roles of text clients and applications against a real server: setting, removing, and deleting such a role.
// Not for devices and people: see roles.spec.mjs. Deletes all roles.
import { accessible, administrator, expect, operator, setting, test } from './support.mjs';

/** Adds a role over the API, and returns its id. */
async function made(name) {
  const { status, body } = await operator('POST', '/api/roles', { name });
  expect(status).toBe(201);
  return JSON.parse(body).id;
}

/** Deletes all roles. */
async function clear() {
  await setting({ 'gateway.role': null, 'chat.role': null });
  const { roles } = JSON.parse((await operator('GET', '/api/roles')).body);
  for (const { id } of roles) expect((await operator('DELETE', `/api/roles/${id}`)).status).toBe(204);
}

test.beforeEach(clear);
test.afterAll(clear);

test('text clients and applications get default roles, and deleting such a role says so', async ({ page, open, faults }) => {
  const clock = await made('Clock');
  const id = await made('Radio');
  const given = async () => {
    const { settings } = JSON.parse((await administrator('GET', '/api/admin/config')).body);
    return [settings.gateway.role, settings.chat.role];
  };
  await open(`roles/${id}`);
  const holders = page.getByRole('region', { name: 'Devices and people with this role' });
  const clients = holders.getByLabel('All text clients');
  await expect(clients).toHaveValue('');
  await clients.selectOption('Radio');
  await expect(holders.getByRole('status')).toHaveText('All text clients: role Radio.');
  await holders.getByLabel('All applications').selectOption('Clock');
  await expect(holders.getByRole('status')).toHaveText('All applications: role Clock.');
  expect(await given()).toEqual([id, clock]);
  await accessible(page);
  await page.reload();
  await expect(clients).toHaveValue(id);
  await page.getByRole('button', { name: 'Delete role' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('return to the server default: All text clients.');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await clients.selectOption('None (server default)');
  await expect(holders.getByRole('status')).toHaveText('All text clients: no role.');
  expect(await given()).toEqual(['', clock]);
  await clients.selectOption('Radio');
  await page.getByRole('button', { name: 'Delete role' }).click();
  await dialog.getByRole('button', { name: 'Delete role' }).click();
  await expect.poll(given).toEqual(['', clock]);
  expect(faults).toEqual([]);
});

test('a refused default role stays unchanged', async ({ page, open }) => {
  const id = await made('Radio');
  await open(`roles/${id}`);
  const clients = page.getByLabel('All text clients');
  await expect(clients).toHaveValue('');
  const message = 'the request cannot be read: `gateway.role` is "Radio": there is no such role';
  await page.route('**/api/admin/config', (route) =>
    route.request().method() === 'PATCH' ? route.fulfill({ status: 400, json: { error: { code: 'BAD_REQUEST', message } } }) : route.continue());
  const sent = page.waitForRequest((request) => request.method() === 'PATCH');
  await clients.selectOption('Radio');
  expect((await sent).postDataJSON()).toEqual({ 'gateway.role': id });
  await expect(page.getByRole('alert')).toContainText(message);
  await expect(clients).toHaveValue('');
  await accessible(page);
});
