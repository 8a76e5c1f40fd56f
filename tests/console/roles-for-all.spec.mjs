// A role for all text clients and all applications, against a real server: giving it, taking it away, and what is told where the
// role is deleted. Not for devices and people: see roles.spec.mjs. Deletes all roles.
import { accessible, administrator, expect, operator, setting, test } from './support.mjs';

/** Adds a role over the API, and returns its id. */
async function made(name) {
  const { status, body } = await operator('POST', '/api/roles', { name });
  expect(status).toBe(201);
  return JSON.parse(body).id;
}

/** Takes all roles away. */
async function clear() {
  await setting({ 'gateway.role': null, 'chat.role': null });
  const { roles } = JSON.parse((await operator('GET', '/api/roles')).body);
  for (const { id } of roles) expect((await operator('DELETE', `/api/roles/${id}`)).status).toBe(204);
}

test.beforeEach(clear);
test.afterAll(clear);

test('all text clients and all applications are given a role, and deleting it says so', async ({ page, open, faults }) => {
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
  await expect(holders.getByRole('status')).toHaveText('All text clients: now with the role Radio.');
  await holders.getByLabel('All applications').selectOption('Clock');
  await expect(holders.getByRole('status')).toHaveText('All applications: now with the role Clock.');
  expect(await given()).toEqual([id, clock]);
  await accessible(page);
  await page.reload();
  await expect(clients).toHaveValue(id);
  await page.getByRole('button', { name: 'Delete this role' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('go back to the configuration: All text clients.');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await clients.selectOption('None: as configured');
  await expect(holders.getByRole('status')).toHaveText('All text clients: now without a role, as configured.');
  expect(await given()).toEqual(['', clock]);
  await clients.selectOption('Radio');
  await page.getByRole('button', { name: 'Delete this role' }).click();
  await dialog.getByRole('button', { name: 'Delete this role' }).click();
  await expect.poll(given).toEqual(['', clock]);
  expect(faults).toEqual([]);
});

test('a role for all clients that is refused stays as it was', async ({ page, open }) => {
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
