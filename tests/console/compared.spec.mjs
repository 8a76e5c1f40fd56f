// Compares some views with the pictures in compared/, which `scripts/console compare` takes. Responses are mocked, so
// that nothing in them changes. Skipped with other fonts. Not for the behaviour of screens.
import { keepFonts, otherFonts } from './fonts.mjs';
import { expect, onlyIf, test } from './support.mjs';

const isTaking = process.env.CONSOLE_COMPARE === '1';
const others = otherFonts();
const FORMS = [
  { name: 'light', theme: 'light', width: 1200, height: 760 },
  { name: 'dark', theme: 'dark', width: 1200, height: 760 },
  { name: 'phone', theme: 'light', width: 390, height: 760 },
];
const NOTHING = { turns: 0, refused: 0, prompt_tokens: 0, completion_tokens: 0, heard_seconds: 0, said_seconds: 0, said_chars: 0, cost: 0 };
const NO_LIMIT = { cost: 0, tokens: 0, seconds: 0 };
const USAGE = {
  total_tokens: 0, total_seconds: 0, total_cost: 0, device_tokens: 0, device_seconds: 0, device_cost: 0, asr_price_per_hour: 0,
  tts_price_per_million_chars: 0, currency: 'EUR', retention_days: 90,
};
const ANSWERS = {
  '/api/account': { name: 'admin', right: 'administrator' },
  '/api/accounts': { accounts: [] },
  '/api/admin/config': {
    settings: { llm: { temperature: 0.7, max_tokens: 256 }, dialogue: { system_prompt: 'You are a friendly voice assistant.' }, history: { keep: 'off' }, usage: USAGE },
    sources: { 'llm.temperature': 'run_time', 'history.keep': 'environment' },
  },
  '/api/devices': { devices: [], next: null },
  '/api/persons': { persons: [] },
  '/api/roles': { roles: [], languages: ['zh', 'en'] },
  '/api/tools': { sources: [] },
  '/api/usage': {
    today: '2026-11-01', from: '2026-10-03', currency: 'EUR', limits: { device: NO_LIMIT, total: NO_LIMIT }, used_today: NOTHING, reached: [],
    days: [], devices: [], roles: [], kinds: [],
  },
};
/** Opens a view before login. */
const entry = (address) => async ({ page }, theme) => {
  await page.addInitScript(([colours]) => {
    localStorage.setItem('hearken.language', 'en');
    localStorage.setItem('hearken.theme', colours);
  }, [theme]);
  await page.goto(`/console/${address}`);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
};
const screen = (name) => ({ open }, theme) => open(name, { theme });
const VIEWS = [
  { name: 'log-in', show: entry('') },
  { name: 'setup', show: entry('#/setup?code=4821-9035'), password: 'none' },
  ...['settings', 'roles', 'devices', 'costs'].map((name) => ({ name, show: screen(name) })),
];

/** Mocks every response; returns the paths without a mock. */
async function standIn(page, password) {
  const unknown = [];
  await page.route('**/api/**', (route) => {
    const { pathname } = new URL(route.request().url());
    const answer = pathname === '/api/admin/setup' ? { password } : ANSWERS[pathname];
    if (!answer) unknown.push(pathname);
    return answer ? route.fulfill({ json: answer }) : route.abort();
  });
  return unknown;
}

onlyIf(test, isTaking || !others, `the views are not compared: ${others}`);
test.beforeAll(() => isTaking && keepFonts());

for (const form of FORMS) {
  for (const { name, show, password = 'set' } of VIEWS) {
    test(`${name} looks as before, ${form.name}`, { tag: '@long' }, async ({ page, open, faults }) => {
      await page.setViewportSize({ width: form.width, height: form.height });
      const unknown = await standIn(page, password);
      await show({ page, open }, form.theme);
      await expect(page.getByText(/^Loading/)).toHaveCount(0);
      await page.evaluate(() => document.fonts.ready);
      await expect(page).toHaveScreenshot(`${name}-${form.name}.png`);
      expect(unknown).toEqual([]);
      expect(faults).toEqual([]);
    });
  }
}
