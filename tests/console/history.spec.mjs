// Stored turns against a real server: enabling the history, search, open, play, save, regenerate, play replies in
// another voice, and delete. The last test deletes everything and disables the history. Not for Live.
import { readFileSync } from 'node:fs';
import { accessible, expect, keep, listenToOutput, operator, test } from './support.mjs';

const wav = process.env.CONSOLE_WAV ?? '';
const ENGLISH = 'Turn on the lamp in the hall';
const CHINESE = '请打开走廊里的灯';
const item = (page, words) => page.locator('li', { has: page.locator('a.turn', { hasText: words }) }).first();
const found = async (words) => JSON.parse((await operator('GET', `/api/history?q=${encodeURIComponent(words)}`)).body).turns;

/** Types a message on Talk and waits until its turn is stored. */
async function write(page, words) {
  const before = (await found(words)).length;
  await page.getByLabel('Type a message').fill(words);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.locator('.head .badge[role=status]')).toHaveText('speaking', { timeout: 20_000 });
  await expect(page.locator('.head .badge[role=status]')).toHaveText('idle', { timeout: 30_000 });
  await expect.poll(async () => (await found(words)).length, { timeout: 15_000 }).toBe(before + 1);
}

/** Opens Talk and types messages, unless their turns are already stored. */
async function kept(page, open, ...sentences) {
  await keep('audio');
  await open('talk');
  for (const words of sentences) if ((await found(words)).length === 0) await write(page, words);
}

test.describe.configure({ mode: 'serial' });
test.beforeAll(() => operator('DELETE', '/api/history?all=true'));
test.afterAll(() => keep(null));

test('nothing is stored until it is enabled, with a privacy notice', async ({ page, open, faults }) => {
  await keep('off');
  await open('history');
  await expect(page.getByText('Conversations are not stored.')).toBeVisible();
  await expect(page.getByText('No turns are stored.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Save', exact: true })).toBeDisabled();
  await accessible(page);
  await page.getByLabel('Store per turn').selectOption('text and audio');
  await expect(page.getByText('The text and the audio of each turn are stored on the server')).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await expect(page.getByText('No turns stored yet.')).toBeVisible();
  expect(JSON.parse((await operator('GET', '/api/history/summary')).body)).toMatchObject({ keep: 'audio', turns: 0 });
  await page.getByRole('link', { name: 'Settings' }).click();
  await expect(page.getByLabel('history.keep')).toHaveValue('audio');
  expect(faults).toEqual([]);
});

test('typed turns are found by text in both languages, and by type, outcome and client', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH, CHINESE);
  await page.getByRole('link', { name: 'History' }).click();
  await expect(item(page, ENGLISH)).toContainText('answered');
  await expect(item(page, CHINESE)).toBeVisible();
  const search = page.getByLabel('Text contains');
  await search.fill('LAMP IN THE');
  await expect(item(page, CHINESE)).toHaveCount(0);
  await expect(item(page, ENGLISH)).toBeVisible();
  await search.fill('nobody said this');
  await expect(page.getByText('No matching turns.')).toBeVisible();
  await accessible(page);
  await page.getByLabel('Language').selectOption('zh');
  await page.getByLabel('包含文字').fill('走廊');
  await expect(item(page, CHINESE)).toBeVisible();
  await expect(item(page, ENGLISH)).toHaveCount(0);
  await accessible(page);
  await page.getByLabel('结果').selectOption('failed');
  await expect(page.getByText('没有符合条件的轮次。')).toBeVisible();
  await page.getByLabel('结果').selectOption('answered');
  const [turn] = await found(CHINESE);
  await page.getByLabel('客户端').selectOption(turn.client);
  await page.getByLabel('类型').selectOption(turn.kind);
  await expect(item(page, CHINESE)).toBeVisible();
  await page.getByRole('link', { name: '对话', exact: true }).click();
  await page.getByLabel('语言').selectOption('en');
  expect(faults).toEqual([]);
});

test('a search cancels the previous one', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH);
  await page.getByRole('link', { name: 'History' }).click();
  await expect(item(page, ENGLISH)).toBeVisible();
  let late = 0;
  await page.route(/api\/history\?.*q=slow/, async (route) => {
    late++;
    await new Promise((done) => setTimeout(done, 1_500));
    await route.fulfill({ json: { turns: [], next: null } }).catch(() => undefined);
  });
  const search = page.getByLabel('Text contains');
  await search.fill('slow');
  await expect.poll(() => late).toBe(1);
  await search.fill('lamp');
  await expect(item(page, ENGLISH)).toBeVisible();
  await page.waitForTimeout(1_700);
  await expect(item(page, ENGLISH)).toBeVisible();
  expect(faults).toEqual([]);
});

test('earlier turns are on the next page', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH);
  const [one] = await found(ENGLISH);
  const other = { ...one, id: 'earlier', heard: 'An earlier turn', audio: null };
  const asked = [];
  await page.route(/api\/history\?/, (route) => {
    const before = new URL(route.request().url()).searchParams.get('before');
    asked.push(before);
    return route.fulfill({ json: before === '7' ? { turns: [other], next: null } : { turns: [one], next: 7 } });
  });
  await page.getByRole('link', { name: 'History' }).click();
  await expect(item(page, ENGLISH)).toBeVisible();
  await page.getByRole('button', { name: 'Next page' }).click();
  await expect(item(page, 'An earlier turn')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Next page' })).toBeDisabled();
  await item(page, 'An earlier turn').getByRole('link').click();
  await expect(page.getByText('No audio is stored for this turn.')).toBeVisible();
  await page.getByRole('button', { name: 'Previous page' }).click();
  await expect(item(page, ENGLISH)).toBeVisible();
  expect(asked).toEqual([null, '7', null]);
  // The turn in the address is not on this page: it is requested separately, and the server does not have it.
  await expect(page.getByRole('region', { name: 'Selected turn' }).getByRole('alert')).toBeVisible();
  faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes('/api/history/earlier')));
  expect(faults).toEqual([]);
});

test('a turn is opened, played, positioned by keyboard and saved as files', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await kept(page, open, ENGLISH);
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await expect(turn.getByRole('link')).toHaveAttribute('aria-expanded', 'true');
  const timeline = turn.getByRole('group', { name: /Timeline/ });
  await expect(timeline).toBeVisible();
  await timeline.focus();
  await page.keyboard.press('ArrowRight');
  await expect(turn.locator('.told')).toHaveText(/: from /);
  await accessible(page);
  const position = turn.getByLabel('Playback position');
  const cursor = () => turn.locator('path.cursor').getAttribute('d');
  const begin = await cursor();
  await page.evaluate(() => (window.loudest = 0));
  await turn.getByRole('button', { name: 'Play', exact: true }).click();
  await expect(turn.getByRole('button', { name: 'Pause' })).toBeVisible();
  await expect.poll(() => page.evaluate(() => window.loudest), { timeout: 15_000 }).toBeGreaterThan(0.02);
  await expect.poll(cursor).not.toBe(begin);
  if (await turn.getByRole('button', { name: 'Pause' }).isVisible()) await turn.getByRole('button', { name: 'Pause' }).click();
  await position.focus();
  await page.keyboard.press('Home');
  await expect.poll(cursor).toBe(begin);
  await page.keyboard.press('ArrowRight');
  await expect.poll(cursor).not.toBe(begin);
  await expect(position).toHaveAttribute('aria-valuetext', /ms|s$/);
  const saving = page.waitForEvent('download');
  await turn.getByRole('button', { name: 'Save reply audio (WAV)' }).click();
  const file = await saving;
  expect(file.suggestedFilename()).toMatch(/^hearken-.*-said\.wav$/);
  expect(readFileSync(await file.path()).subarray(0, 4).toString()).toBe('RIFF');
  expect(faults).toEqual([]);
});

test('a spoken turn is stored with the audio of the user', async ({ page, open, faults }) => {
  test.skip(!wav, 'CONSOLE_WAV names no recording');
  await keep('audio');
  await open('talk');
  await page.getByLabel('Hold to talk', { exact: true }).check();
  await page.locator('input[type=file]').setInputFiles(wav);
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 20_000 });
  await expect(page.locator('.head .badge[role=status]')).toHaveText(/idle|listening/, { timeout: 30_000 });
  const spoken = async () => JSON.parse((await operator('GET', '/api/history?kind=voice')).body).turns.find((one) => one.audio?.heard && one.audio.said);
  await expect.poll(spoken, { timeout: 15_000 }).toBeTruthy();
  const { id, audio } = await spoken();
  expect(audio.said.start_ms).toBeGreaterThan(audio.heard.start_ms);
  await page.goto(`/console/#/history/${id}`);
  const turn = page.locator('li', { has: page.locator('a.turn.open') });
  await expect(turn.getByRole('button', { name: 'Save user audio (WAV)' })).toBeVisible();
  await expect(turn.getByRole('button', { name: 'Save reply audio (WAV)' })).toBeVisible();
  await turn.getByRole('button', { name: 'Play', exact: true }).click();
  await expect(turn.getByRole('button', { name: 'Pause' })).toBeVisible();
  await accessible(page);
  const saving = page.waitForEvent('download');
  await turn.getByRole('button', { name: 'Save as a recording for replay' }).click();
  const lines = readFileSync(await (await saving).path(), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  expect(lines[0]).toMatchObject({ format: 'hearken-recording', version: 1, expect: { max_error: 0.25 } });
  expect(lines.filter((line) => line.up_audio).length).toBeGreaterThan(5);
  expect(faults).toEqual([]);
});

/** Opens the stored English turn and returns its panel for regenerating the reply. */
async function againPanel(page) {
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await turn.getByRole('button', { name: 'Regenerate' }).click();
  return turn.getByRole('region', { name: 'Regenerate' });
}

test('the reply is regenerated, and the new ones are shown next to the original', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH);
  const [{ said }] = await found(ENGLISH);
  const panel = await againPanel(page);
  await expect(panel.getByRole('article')).toHaveCount(1);
  await expect(panel.getByRole('article').first()).toContainText(said.slice(0, 20));
  await panel.getByRole('button', { name: 'Ask the model' }).click();
  await expect(panel.getByRole('heading', { name: 'Attempt 1' })).toBeVisible({ timeout: 20_000 });
  await panel.getByLabel('Instructions').fill('Answer in one word.');
  await panel.getByRole('button', { name: 'Ask the model' }).click();
  const second = panel.getByRole('article').filter({ hasText: 'Attempt 2' });
  await expect(second).toContainText('Answer in one word.', { timeout: 20_000 });
  await expect(second).toContainText(/First word\s*[\d.]+ (ms|s)/);
  await accessible(page);
  await second.getByRole('button', { name: 'Remove' }).click();
  await expect(panel.getByRole('article')).toHaveCount(2);
  expect(faults).toEqual([]);
});

test('the original reply and a new one are played in a chosen voice', async ({ page, open, faults }) => {
  await listenToOutput(page);
  await kept(page, open, ENGLISH);
  const [{ said }] = await found(ENGLISH);
  const panel = await againPanel(page);
  await panel.getByRole('button', { name: 'Ask the model' }).click();
  const answers = panel.getByRole('article');
  await expect(answers).toHaveCount(2, { timeout: 20_000 });
  const another = (await answers.last().locator('p.text').textContent()).trim();
  for (const [answer, title, text, voice] of [[answers.first(), 'Original reply', said.trim(), ''], [answers.last(), 'Attempt 1', another, 'anna']]) {
    await panel.getByLabel('Voice', { exact: true }).fill(voice);
    await page.evaluate(() => (window.loudest = 0));
    const sent = page.waitForRequest('**/api/services/test');
    await answer.getByRole('button', { name: `Listen: ${title}` }).click();
    expect((await sent).postDataJSON()).toEqual({ service: 'tts', text, ...(voice ? { voice } : {}) });
    await expect(answer).toContainText(/First audio\s*[\d.]+ (ms|s)/, { timeout: 20_000 });
    await expect(answer).toContainText(new RegExp(`Voice\\s*${voice || 'Server default'}`));
    await expect.poll(() => page.evaluate(() => window.loudest), { timeout: 15_000 }).toBeGreaterThan(0.02);
  }
  await accessible(page);
  await expect(answers.last().getByRole('button', { name: 'Play again' })).toBeVisible({ timeout: 30_000 });
  await page.evaluate(() => (window.loudest = 0));
  await answers.last().getByRole('button', { name: 'Play again' }).click();
  await expect.poll(() => page.evaluate(() => window.loudest), { timeout: 15_000 }).toBeGreaterThan(0.02);
  expect(faults).toEqual([]);
});

test('a failed synthesis is shown with a remedy', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH);
  const failed = { service: 'tts', ok: false, first_ms: null, total_ms: 12, text: null, audio: null, error: 'there is no voice of this name' };
  await page.route('**/api/services/test', (route) => route.fulfill({ json: failed }));
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await turn.getByRole('button', { name: 'Regenerate' }).click();
  await turn.getByRole('button', { name: 'Listen: Original reply' }).click();
  await expect(turn.getByRole('alert')).toContainText('there is no voice of this name');
  await expect(turn.getByRole('button', { name: 'Play again' })).toHaveCount(0);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a failed regeneration is shown with a remedy', async ({ page, open }) => {
  await kept(page, open, ENGLISH);
  await page.route('**/api/history/*/again', (route) => route.fulfill({ status: 503, json: { error: { code: 'UNAVAILABLE', message: 'the language model does not answer' } } }));
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await turn.getByRole('button', { name: 'Regenerate' }).click();
  await turn.getByRole('button', { name: 'Ask the model' }).click();
  await expect(turn.getByRole('alert')).toContainText('the language model does not answer');
});

test('matching turns are exported as JSON', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH, CHINESE);
  await page.getByRole('link', { name: 'History' }).click();
  await expect(item(page, CHINESE)).toHaveCount(1);
  await page.getByLabel('Text contains').fill('lamp in the hall');
  await expect(item(page, CHINESE)).toHaveCount(0);
  await expect(item(page, ENGLISH)).toHaveCount(1);
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export JSON' }).click();
  const file = await saving;
  expect(file.suggestedFilename()).toBe('hearken-history.json');
  const { turns } = JSON.parse(readFileSync(await file.path(), 'utf8'));
  expect(turns.map((one) => one.heard)).toContain(ENGLISH);
  expect(turns.map((one) => one.heard)).not.toContain(CHINESE);
  expect(faults).toEqual([]);
});

test('a stored turn fits a phone, dark and in Chinese', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH);
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await page.getByLabel('Theme').selectOption('dark');
  await page.getByLabel('Language').selectOption('zh');
  await turn.getByRole('button', { name: '重新生成' }).click();
  await expect(turn.getByRole('group', { name: /时间线/ })).toBeVisible();
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(content).toBeLessThanOrEqual(width);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('without the password, the screen says where to change the setting', async ({ page, open, faults }) => {
  await open('history');
  await page.addInitScript(() => {
    const session = JSON.parse(sessionStorage.getItem('hearken.session'));
    sessionStorage.setItem('hearken.session', JSON.stringify({ ...session, tokens: null }));
  });
  await page.reload();
  await expect(page.getByText('set history.keep on')).toBeVisible();
  await expect(page.getByLabel('Store per turn')).toHaveCount(0);
  await accessible(page);
  expect(faults).toEqual([]);
});

test('a turn is deleted, then all of a client, then everything', async ({ page, open, faults }) => {
  await kept(page, open, ENGLISH, CHINESE);
  const [{ id }] = await found(ENGLISH);
  const [{ client }] = await found(CHINESE);
  await page.getByRole('link', { name: 'History' }).click();
  const turn = item(page, ENGLISH);
  await turn.getByRole('link').click();
  await turn.getByRole('button', { name: 'Delete turn' }).click();
  await accessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Delete turn' }).click();
  await expect(item(page, ENGLISH)).toHaveCount(0);
  await expect(page.getByRole('dialog')).toHaveCount(0);
  for (const rest of ['', '/said.wav', '/heard.wav']) expect((await operator('GET', `/api/history/${id}${rest}`)).status).toBe(404);
  expect((await operator('DELETE', `/api/history/${id}`)).status).toBe(404);

  await page.getByLabel('Client').selectOption(client);
  await page.getByRole('button', { name: /^Delete all turns of/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: /^Delete all turns of/ }).click();
  await expect(page.getByText(/^\d+ turns deleted\.$/)).toBeVisible();
  await expect(item(page, CHINESE)).toHaveCount(0);
  expect(await found(CHINESE)).toEqual([]);

  await page.getByRole('link', { name: 'Talk' }).click();
  await write(page, ENGLISH);
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByRole('button', { name: 'Delete everything' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete everything' }).click();
  await expect(page.getByText('No turns stored yet.')).toBeVisible();
  expect(JSON.parse((await operator('GET', '/api/history/summary')).body)).toMatchObject({ turns: 0, audio_bytes: 0, clients: [] });
  expect((await operator('DELETE', '/api/history')).status).toBe(400);

  await page.getByLabel('Store per turn').selectOption('nothing');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.getByText('No turns are stored. Choose above')).toBeVisible();
  await page.getByRole('link', { name: 'Talk' }).click();
  await page.getByLabel('Type a message').fill(ENGLISH);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await expect(page.locator('.device.wrap').first()).toBeVisible({ timeout: 20_000 });
  await expect(page.locator('.head .badge[role=status]')).toHaveText('idle', { timeout: 30_000 });
  expect(await found(ENGLISH)).toEqual([]);
  expect(faults).toEqual([]);
});
