// Tool permissions, and the tokens of tool clients and devices, against a real server. Not for tools and devices
// themselves.
import { accessible, expect, operator, test } from './support.mjs';

const json = async (path) => JSON.parse((await operator('GET', path)).body);

test('a tool client connects with a token until it is revoked', async ({ page, open }) => {
  await open('tools');
  const card = page.getByRole('region', { name: 'Tool client tokens' });
  await card.getByLabel('Token name (optional)').fill("Anna's PC");
  await card.getByRole('button', { name: 'Create token' }).click();
  const address = await card.getByLabel('Address with token (MCP_ENDPOINT)').inputValue();
  expect(address).toContain(await card.getByLabel('Token', { exact: true }).inputValue());
  const dial = () => page.evaluate((url) => new Promise((told) => {
    window.dialled = new WebSocket(url);
    window.dialled.onopen = () => told('open');
    window.dialled.onerror = () => told('refused');
  }), address);
  expect(await dial()).toBe('open');
  await accessible(page);
  const item = card.getByRole('listitem').filter({ hasText: "Anna's PC" });
  await item.getByRole('button', { name: 'Revoke' }).click();
  await accessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(item.getByText('revoked', { exact: true })).toBeVisible();
  await expect.poll(() => page.evaluate(() => window.dialled.readyState)).toBe(3);
  expect(await dial()).toBe('refused');
  await expect(card.getByLabel('Token', { exact: true })).toHaveCount(0);
  const { tokens } = await json('/api/tools/tokens');
  expect(tokens.filter((token) => token.name === "Anna's PC" && token.revoked)).toHaveLength(1);
});

test('the permission of a tool is set by its name and by a pattern', async ({ page, open, faults }) => {
  const policyOf = async (name) => {
    const { sources } = await json('/api/tools');
    return sources.find((source) => source.name === 'builtin').tools.find((tool) => tool.name === name).policy;
  };
  await open('tools');
  const choice = page.getByRole('region', { name: 'builtin' }).getByLabel('Permission for builtin/get_current_time');
  await choice.selectOption('never');
  await expect.poll(() => policyOf('get_current_time')).toBe('never');
  const card = page.getByRole('region', { name: 'Tool permissions' });
  await card.getByRole('textbox').fill('builtin');
  await card.getByRole('button', { name: 'Add rule' }).click();
  await expect(card.getByRole('alert')).toContainText('SOURCE/TOOL');
  await card.getByRole('textbox').fill('builtin/*');
  await card.getByRole('combobox', { name: 'Permission', exact: true }).selectOption('ask');
  await card.getByRole('button', { name: 'Add rule' }).click();
  await expect(card.getByText('builtin/*', { exact: true })).toBeVisible();
  await expect(choice).toHaveValue('never');
  await accessible(page);
  await card.getByRole('button', { name: 'Remove the rule builtin/get_current_time' }).click();
  await expect(choice).toHaveValue('ask');
  await card.getByRole('button', { name: 'Remove the rule builtin/*' }).click();
  await expect(choice).toHaveValue('');
  expect(await policyOf('get_current_time')).toBe(null);
  await card.getByLabel('Tools with a changed definition:').selectOption('never');
  await expect.poll(() => page.reload().then(() => card.getByLabel('Tools with a changed definition:').inputValue())).toBe('never');
  await card.getByLabel('Tools with a changed definition:').selectOption('ask');
  await expect(card.getByLabel('Tools with a changed definition:')).toBeEnabled();
  expect(faults.filter((fault) => !fault.includes('400'))).toEqual([]);
});

test('a token of a device is created for a program and revoked', async ({ page, open, request, faults }) => {
  const id = '02:00:00:00:0c:21';
  const headers = { 'device-id': id, 'client-id': '5d3c6f0e-7f5b-4a3e-9c1a-000000000021' };
  const answer = await request.post('/xiaozhi/ota/', { headers, data: { application: { version: '2.4.2' } } });
  expect(answer.status()).toBe(200);
  await open('devices');
  await page.getByRole('link', { name: id }).click();
  await page.getByRole('button', { name: 'Create token' }).click();
  await expect(page.getByLabel('Client-Id')).toHaveValue(headers['client-id']);
  await expect(page.getByLabel('Authorization')).toHaveValue(/^Bearer \S+\.\d+$/);
  await accessible(page);
  await page.getByRole('button', { name: 'Revoke tokens' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke tokens' }).click();
  await expect(page.getByText('Tokens revoked.')).toBeVisible();
  await expect(page.getByLabel('Authorization')).toHaveCount(0);
  expect((await operator('DELETE', `/api/devices/${id}`)).status).toBe(204);
  expect(faults).toEqual([]);
});
