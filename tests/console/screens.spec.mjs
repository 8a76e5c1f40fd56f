// Every screen in both languages and both colours: no fault of accessibility, no error, no breach of the policy, no sideways
// scrolling at the width of a phone. Not for what the screens do.
import { accessible, expect, MOCK_URL, test } from './support.mjs';

const SCREENS = ['home', 'talk', 'live', 'history', 'devices', 'people', 'roles', 'services', 'costs', 'tools', 'settings', 'conversations', 'audit', 'account'];

for (const screen of SCREENS) {
  for (const language of ['en', 'zh']) {
    for (const theme of ['light', 'dark']) {
      test(`${screen}, ${language}, ${theme}`, async ({ page, open, faults }) => {
        await open(screen, { language, theme, base: MOCK_URL });
        await expect(page.locator('html')).toHaveAttribute('lang', language === 'zh' ? 'zh-CN' : 'en');
        await expect(page.getByText(/^(Loading|正在加载)/)).toHaveCount(0);
        await accessible(page);
        expect(faults).toEqual([]);
      });
    }
  }

  test(`${screen} fits a phone`, async ({ page, open, faults }) => {
    await page.setViewportSize({ width: 360, height: 740 });
    await open(screen, { base: MOCK_URL });
    await expect(page.getByText(/^Loading/)).toHaveCount(0);
    const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    expect(content).toBeLessThanOrEqual(width);
    await accessible(page);
    expect(faults).toEqual([]);
  });
}

test('the keyboard reaches the content and every screen', async ({ page, open }) => {
  await open('home');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.locator('main')).toBeFocused();
  for (const name of ['Talk', 'Live', 'Devices', 'Log-ins and audit']) {
    await page.getByRole('navigation').getByRole('link', { name }).focus();
    await page.keyboard.press('Enter');
    await expect(page.locator('main h1')).toHaveText(name);
  }
});
