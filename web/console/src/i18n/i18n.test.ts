// Checks that both languages say the same, as far as a program can tell.
import { describe, expect, it } from 'vitest';
import { fill, preferred } from './choose';
import { en } from './en';
import { enAccounts } from './en-accounts';
import { enCosts } from './en-costs';
import { enManage } from './en-manage';
import { enRoles } from './en-roles';
import { enServices } from './en-services';
import { enSetup } from './en-setup';
import { zh } from './zh';
import { zhAccounts } from './zh-accounts';
import { zhCosts } from './zh-costs';
import { zhManage } from './zh-manage';
import { zhRoles } from './zh-roles';
import { zhServices } from './zh-services';
import { zhSetup } from './zh-setup';

const english: Record<string, string> = { ...en, ...enAccounts, ...enCosts, ...enManage, ...enRoles, ...enServices, ...enSetup };
const chinese: Record<string, string> = { ...zh, ...zhAccounts, ...zhCosts, ...zhManage, ...zhRoles, ...zhServices, ...zhSetup };
const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();

describe('dictionaries', () => {
  it('have the same keys, and no key twice', () => {
    expect(Object.keys(chinese).sort()).toEqual(Object.keys(english).sort());
    const parts = [en, enAccounts, enCosts, enManage, enRoles, enServices, enSetup].map((part) => Object.keys(part).length);
    expect(Object.keys(english).length).toBe(parts.reduce((sum, count) => sum + count));
  });

  it('have words and the same values in place of names', () => {
    for (const [key, text] of Object.entries(english)) {
      expect(chinese[key]?.trim(), key).toBeTruthy();
      expect(text.trim(), key).toBeTruthy();
      expect(names(chinese[key] ?? ''), key).toEqual(names(text));
    }
  });

  it('are translated: Chinese words hold Chinese characters, except names', () => {
    const names = ['service.redis'];
    const bare = Object.entries(chinese).filter(([, text]) => !/\p{Script=Han}/u.test(text)).map(([key]) => key);
    expect(bare.sort()).toEqual(names);
    expect(Object.entries(english).filter(([, text]) => /\p{Script=Han}/u.test(text))).toEqual([]);
  });
});

describe('choice', () => {
  it('takes the first language that is known', () => {
    expect(preferred(['de-DE', 'zh-TW', 'en'])).toBe('zh');
    expect(preferred(['en-GB', 'zh'])).toBe('en');
    expect(preferred(['fr'])).toBe('en');
    expect(preferred([])).toBe('en');
  });

  it('fills in values, and leaves names that have none', () => {
    expect(fill('{a} of {b}, {c}', { a: 1, b: 'two' })).toBe('1 of two, {c}');
  });
});
