// Checks that both dictionaries have the same keys and placeholders, and the Chinese sentences of server messages.
import { describe, expect, it } from 'vitest';
import { fill, preferred } from './choose';
import { en } from './en';
import { enAccounts } from './en-accounts';
import { enCosts } from './en-costs';
import { enErrors } from './en-errors';
import { enManage } from './en-manage';
import { enRoles } from './en-roles';
import { enServices } from './en-services';
import { enSetup } from './en-setup';
import { zh } from './zh';
import { zhAccounts } from './zh-accounts';
import { zhCosts } from './zh-costs';
import { zhErrors, zhMessageOf } from './zh-errors';
import { zhManage } from './zh-manage';
import { zhRoles } from './zh-roles';
import { zhServices } from './zh-services';
import { zhSetup } from './zh-setup';

const english: Record<string, string> = { ...en, ...enAccounts, ...enCosts, ...enErrors, ...enManage, ...enRoles, ...enServices, ...enSetup };
const chinese: Record<string, string> = { ...zh, ...zhAccounts, ...zhCosts, ...zhErrors, ...zhManage, ...zhRoles, ...zhServices, ...zhSetup };
const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();

describe('dictionaries', () => {
  it('have the same keys, each once', () => {
    expect(Object.keys(chinese).sort()).toEqual(Object.keys(english).sort());
    const parts = [en, enAccounts, enCosts, enErrors, enManage, enRoles, enServices, enSetup].map((part) => Object.keys(part).length);
    expect(Object.keys(english).length).toBe(parts.reduce((sum, count) => sum + count));
  });

  it('have a text for every key, with the same placeholders', () => {
    for (const [key, text] of Object.entries(english)) {
      expect(chinese[key]?.trim(), key).toBeTruthy();
      expect(text.trim(), key).toBeTruthy();
      expect(names(chinese[key] ?? ''), key).toEqual(names(text));
    }
  });

  it('are translated: Chinese texts contain Chinese characters, except names', () => {
    const names = ['service.redis'];
    const bare = Object.entries(chinese).filter(([, text]) => !/\p{Script=Han}/u.test(text)).map(([key]) => key);
    expect(bare.sort()).toEqual(names);
    expect(Object.entries(english).filter(([, text]) => /\p{Script=Han}/u.test(text))).toEqual([]);
  });
});

describe('messages of the server', () => {
  it('have a Chinese sentence, with their numbers and names', () => {
    const sentences: [string, string][] = [
      ['there is nothing at this address: no device waits with this code', '没有设备使用此验证码。'],
      ['the request cannot be read: `llm.temperature` is 9: use 0 to 2', 'llm.temperature 的值“9”无效，应为 0 到 2。'],
      ['the request cannot be read: `history.keep` is x: use off, text or audio', 'history.keep 的值“x”无效，应为 off、text 或 audio。'],
      ['the request cannot be read: `llm.max_tokens` must be a number, not text', 'llm.max_tokens 的类型不正确，应为数字。'],
      ['the caller is not let in: this needs the right `administrator`, you have `guest`', '此操作需要“管理员”权限，当前权限为“访客”。'],
      ['this is at odds with what is there: another role has this `name`: choose another', '已有同名角色，请换一个名称。'],
      ['the server is full: the device has too many orders waiting', '等待执行的设备命令过多，请稍后再试。'],
      ['openai-llm: unavailable: connection refused', 'openai-llm：无法连接服务，或服务已停止。'],
    ];
    for (const [message, sentence] of sentences) expect(zhMessageOf(message), message).toBe(sentence);
  });

  it('without a sentence are left to the code', () => {
    for (const message of ['', 'HTTP 500', 'something new']) expect(zhMessageOf(message)).toBeNull();
  });
});

describe('choice', () => {
  it('is the first supported language', () => {
    expect(preferred(['de-DE', 'zh-TW', 'en'])).toBe('zh');
    expect(preferred(['en-GB', 'zh'])).toBe('en');
    expect(preferred(['fr'])).toBe('en');
    expect(preferred([])).toBe('en');
  });

  it('fills in values and leaves placeholders without a value', () => {
    expect(fill('{a} of {b}, {c}', { a: 1, b: 'two' })).toBe('1 of two, {c}');
  });
});
