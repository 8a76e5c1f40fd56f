// Every screen in both languages and themes: no accessibility faults, no errors, no violations of the content security
// policy, no horizontal scrolling on a phone. Not for the behaviour of screens.
import { accessible, expect, MOCK_URL, test } from './support.mjs';

const SCREENS = ['home', 'talk', 'live', 'history', 'devices', 'people', 'roles', 'services', 'costs', 'tools', 'settings', 'conversations', 'audit', 'account'];

const FORMS = ['en', 'zh'].flatMap((language) => ['light', 'dark'].map((theme) => ({ language, theme })));

/** Waits until a screen has loaded. */
async function loaded(page) {
  await expect(page.getByText(/^(Loading|正在加载)/)).toHaveCount(0);
}

/** Expects that a screen fits a phone without horizontal scrolling. */
async function fits(page) {
  await page.setViewportSize({ width: 360, height: 740 });
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
}

/** Opens a screen in a language and theme, and expects no accessibility faults. */
async function looksWell(page, open, screen, { language, theme }) {
  await open(screen, { language, theme, base: MOCK_URL });
  await expect(page.locator('html')).toHaveAttribute('lang', language === 'zh' ? 'zh-CN' : 'en');
  await loaded(page);
  await accessible(page);
}

// Every second screen once, alternating between languages and themes, then at the width of a phone; the long test has all.
SCREENS.filter((_, number) => number % 2 === 0).forEach((screen, number) => {
  const form = FORMS[number % FORMS.length];
  test(`${screen}, ${form.language}, ${form.theme}, and on a phone`, async ({ page, open, faults }) => {
    await looksWell(page, open, screen, form);
    await fits(page);
    expect(faults).toEqual([]);
  });
});

for (const screen of SCREENS) {
  for (const form of FORMS) {
    test(`${screen}, ${form.language}, ${form.theme}`, { tag: '@long' }, async ({ page, open, faults }) => {
      await looksWell(page, open, screen, form);
      expect(faults).toEqual([]);
    });
  }

  test(`${screen} fits a phone`, { tag: '@long' }, async ({ page, open, faults }) => {
    await page.setViewportSize({ width: 360, height: 740 });
    await open(screen, { base: MOCK_URL });
    await loaded(page);
    await fits(page);
    await accessible(page);
    expect(faults).toEqual([]);
  });
}

test('the keyboard reaches the content and every screen', async ({ page, open }) => {
  await open('home');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.locator('main')).toBeFocused();
  for (const name of ['Talk', 'Live', 'Devices', 'Audit']) {
    await page.getByRole('navigation').getByRole('link', { name }).focus();
    await page.keyboard.press('Enter');
    await expect(page.locator('main h1')).toHaveText(name);
  }
});
