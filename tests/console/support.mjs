// Shared by all tests: one login, pages that collect faults and violations of the content security policy, and requests
// to the server.
import AxeBuilder from '@axe-core/playwright';
import { test as base, expect, request } from '@playwright/test';
import { MOCK_URL } from './playwright.config.mjs';

export { expect, MOCK_URL };
export const PASSWORD = process.env.CONSOLE_PASSWORD ?? '';
export const TOKEN = process.env.CONSOLE_ADMIN_TOKEN ?? '';

export const test = base.extend({
  /** Faults of a page: exceptions, console errors, violations of the content security policy. */
  faults: async ({ page }, use) => {
    const faults = [];
    page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(`console: ${message.text()} ${message.location().url}`);
    });
    await page.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
    });
    await use(faults);
  },

  /** Opens a screen, logged in. */
  open: async ({ page, faults, baseURL }, use) => {
    void faults;
    await use(async (screen, { language = 'en', theme = 'light', base = baseURL } = {}) => {
      await page.addInitScript(([session, tongue, colours]) => {
        sessionStorage.setItem('hearken.session', session);
        localStorage.setItem('hearken.language', tongue);
        localStorage.setItem('hearken.theme', colours);
      }, [process.env.CONSOLE_KEPT, language, theme]);
      await page.goto(`${base}/console/#/${screen}`);
      await expect(page.locator('main h1')).toBeVisible();
    });
  },
});

/** Sends a request as the operator. */
export const operator = (method, path, data) => ask(TOKEN, method, path, data);

/** Sends a request as the logged-in administrator. */
export const administrator = (method, path, data) => ask(JSON.parse(process.env.CONSOLE_KEPT).tokens.access, method, path, data);

async function ask(bearer, method, path, data, read = (answer) => answer.text()) {
  const api = await request.newContext({ baseURL: process.env.HEARKEN_URL, extraHTTPHeaders: { authorization: `Bearer ${bearer}` } });
  const answer = await api.fetch(path, { method, ...(data ? { data } : {}) });
  const result = { status: answer.status(), body: await read(answer) };
  await api.dispose();
  return result;
}

/** Returns the reply audio of a stored turn, as WAV in base64. */
export async function soundSaid(turn) {
  const { status, body } = await ask(TOKEN, 'GET', `/api/history/${turn}/said.wav`, undefined, (answer) => answer.body());
  expect(status).toBe(200);
  return body.toString('base64');
}

/** Deletes all devices. */
export async function forgetDevices() {
  const { devices } = JSON.parse((await operator('GET', '/api/devices?limit=1000')).body);
  for (const { device_id: id } of devices) expect((await operator('DELETE', `/api/devices/${encodeURIComponent(id)}`)).status).toBe(204);
}

/** Records the loudest sample that the page plays, in `window.loudest`. */
export async function listenToOutput(page) {
  await page.addInitScript(() => {
    const connect = AudioNode.prototype.connect;
    window.loudest = 0;
    AudioNode.prototype.connect = function (to, ...rest) {
      if (to instanceof AudioDestinationNode && !(to.context instanceof OfflineAudioContext)) {
        const meter = to.context.createAnalyser();
        connect.call(this, meter);
        const samples = new Float32Array(meter.fftSize);
        setInterval(() => {
          meter.getFloatTimeDomainData(samples);
          window.loudest = Math.max(window.loudest, ...samples.map(Math.abs));
        }, 20);
      }
      return connect.call(this, to, ...rest);
    };
  });
}

/** Changes settings as the administrator; null restores the configuration. */
export async function setting(body) {
  expect((await administrator('PATCH', '/api/admin/config', body)).status).toBe(200);
}

/** Changes what is stored of turns. */
export const keep = (what) => setting({ 'history.keep': what });

/** Expects no accessibility faults on the page. */
export async function accessible(page) {
  const found = await new AxeBuilder({ page }).analyze();
  expect(found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' | ')}`)).toEqual([]);
}

/** Expects a chart with this name, drawn in the current colour of this variable, at full width. */
export async function drawn(page, name, colour = '--accent') {
  const chart = page.getByRole('img', { name });
  await expect(chart).toBeVisible();
  const look = () => chart.locator('canvas').evaluate((canvas, variable) => {
    const [red, green, blue] = getComputedStyle(document.documentElement).getPropertyValue(variable).match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const count = data.reduce((sum, value, at) => sum + (at % 4 === 0 && value === red && data[at + 1] === green && data[at + 2] === blue ? 1 : 0), 0);
    return { isDrawn: count > 10, isWide: Math.abs(canvas.clientWidth - canvas.closest('[role=img]').clientWidth) < 2 };
  }, colour);
  await expect.poll(look).toEqual({ isDrawn: true, isWide: true });
}

/** Runs the tests of a file only if `given`; otherwise prints once why they are skipped. */
export function onlyIf(tests, given, reason) {
  // Worker processes load the files again.
  if (!given && process.env.TEST_WORKER_INDEX === undefined) console.log(`skipped: ${reason}`);
  tests.skip(!given, reason);
}
