// Checks changed fields of a role, the field that an error concerns, differences of instructions, and default roles.
import { describe, expect, it } from 'vitest';
import { ApiError } from '../lib/errors';
import type { Role, RoleFields } from '../lib/types';
import { abridged, difference, type Part, pieces } from './difference';
import { changedFields, changesOf, fieldNamed, length, switchesOf, tidied, trialOf, withTyped } from './fields';
import { keyFor, kindsWith, roleFor } from './for-all';

const role: RoleFields = {
  name: 'Grandma', system_prompt: 'Be kind.', model: '', temperature: null, max_tokens: null, answer_seconds: null, voice: '', language: null,
  tools_off: ['builtin', 'home'], interruption: null, instant: null, memory: true, history: null,
  daily_tokens: null, daily_seconds: null, daily_cost: null,
};
const marked = (parts: Part[]) => parts.map((part) => `${{ same: '=', gone: '-', new: '+' }[part.kind]}${part.text}`);

describe('fields of a role', () => {
  it('differ by value, regardless of the order of tool sources', () => {
    expect(changedFields(role, { ...role, tools_off: ['home', 'builtin'] })).toEqual([]);
    expect(changedFields(role, { ...role, memory: false, history: 'off', tools_off: ['home'] })).toEqual(['tools_off', 'memory', 'history']);
    expect(changesOf(role, { ...role, temperature: 0, language: 'zh' })).toEqual({ temperature: 0, language: 'zh' });
  });

  it('disable tool clients by their token, and show what is not available', () => {
    const sources = [{ name: 'home' }, { name: 'calc', key: 'token:a1' }, { name: 'calc-2', key: 'token:a1' }, { name: 'lamp', key: 'token:b2' }];
    const shown = switchesOf(sources, ['endpoint', 'calc', 'gone', 'token:c3']).map(({ entry, entries, isKnown }) => [entry, entries.join(' '), isKnown]);
    expect(shown).toEqual([
      ['home', 'home', true], ['token:a1', 'token:a1 calc calc-2', true], ['token:b2', 'token:b2 lamp', true],
      ['gone', 'gone', false], ['token:c3', 'token:c3', false],
    ]);
  });

  it('are trimmed if short; instructions are unchanged', () => {
    expect(changesOf(role, tidied({ ...role, name: ' Grandma ', voice: ' anna ', system_prompt: ' Be kind.' }))).toEqual({ voice: 'anna', system_prompt: ' Be kind.' });
  });

  it('limit a day: 0 blocks all use, an empty field is no limit', () => {
    expect(changesOf(role, tidied({ ...role, daily_tokens: 0, daily_seconds: 3_600, daily_cost: 0.5 })))
      .toEqual({ daily_tokens: 0, daily_seconds: 3_600, daily_cost: 0.5 });
    const emptied = { daily_tokens: undefined as unknown as null, daily_cost: null };
    expect(changesOf({ ...role, daily_tokens: 5, daily_cost: 1 }, tidied({ ...role, ...emptied }))).toEqual({ daily_tokens: null, daily_cost: null });
  });

  it('retain input typed while others are saved', () => {
    const sent = { ...role, name: ' Granny ', memory: false };
    const stored = { ...role, name: 'Granny', memory: false };
    expect(withTyped(stored, sent, sent)).toEqual(stored);
    expect(withTyped(stored, sent, { ...sent, system_prompt: 'Be brief.' })).toEqual({ ...stored, system_prompt: 'Be brief.' });
  });

  it('are tried without empty ones', () => {
    expect(trialOf('Hello', role)).toEqual({ text: 'Hello', system_prompt: 'Be kind.' });
    expect(trialOf('Hello', { ...role, system_prompt: '', temperature: 0, max_tokens: 5, language: 'en', model: ' m ', voice: 'v' }))
      .toEqual({ text: 'Hello', temperature: 0, max_tokens: 5, language: 'en', model: 'm' });
  });

  it('count characters, not UTF-16 units', () => {
    expect(length('a🙂字')).toBe(3);
  });

  it('are found in errors', () => {
    const refused = (status: number, message: string) => fieldNamed(new ApiError(status, 'X', message));
    expect(refused(409, 'there is a role of this name: choose another')).toBe('name');
    expect(refused(409, 'there are 100 roles: delete one')).toBeNull();
    expect(refused(400, 'the request cannot be read: `max_tokens` is 0: use 1 to 100000')).toBe('max_tokens');
    expect(refused(400, '`daily_cost` is a number from 0 to 1000000000')).toBe('daily_cost');
    expect(refused(400, 'a name has 1 to 64 characters')).toBe('name');
    expect(refused(400, 'the body breaks off')).toBeNull();
    expect(refused(503, '`model` does not answer')).toBeNull();
    expect(fieldNamed(new Error('name'))).toBeNull();
  });
});

describe('difference of texts', () => {
  it('splits after sentences and lines without loss', () => {
    expect(pieces('One. Two!\nThree 你好。再见')).toEqual(['One. ', 'Two!\n', 'Three 你好。', '再见']);
    for (const text of ['', '\n\na', '...', 'a.\n\n b', 'no end']) expect(pieces(text).join('')).toBe(text);
  });

  it('lists unchanged, removed and added parts', () => {
    expect(marked(difference('A. B. C. D.', 'A. X. C. D. E.'))).toEqual(['=A. ', '-B. ', '+X. ', '=C. ', '-D.', '+D. E.']);
    expect(marked(difference('A. B. ', 'A. B. '))).toEqual(['=A. B. ']);
    expect(marked(difference('', 'A.'))).toEqual(['+A.']);
    expect(marked(difference('A. B.', 'B.'))).toEqual(['-A. ', '=B.']);
    expect(marked(difference('喂。再见。', '你好。再见。'))).toEqual(['-喂。', '+你好。', '=再见。']);
  });

  it('of long texts compares their start and end, and contains both texts', () => {
    const lines = (word: string) => Array.from({ length: 1_500 }, (_, n) => `${word}${n % 7}.`).join('\n');
    for (const [before, after] of [[`A.\n${lines('x')}\nZ.`, `A.\n${lines('y')}\nZ.`], ['A. B. A. B. A.', 'B. A. A. C. B.']] as const) {
      const parts = difference(before, after);
      expect(parts.filter((part) => part.kind !== 'new').map((part) => part.text).join('')).toBe(before);
      expect(parts.filter((part) => part.kind !== 'gone').map((part) => part.text).join('')).toBe(after);
    }
  });

  it('shortens unchanged text to the context of changes', () => {
    const long = 'a'.repeat(100);
    const parts = abridged(difference(`${long}.X.${long}.Y.${long}.`, `${long}.1.${long}.2.${long}.`));
    expect(parts.filter((part) => part.kind === 'same').map((part) => part.text.length)).toEqual([41, 81, 41]);
    expect(abridged([{ kind: 'same', text: 'short' }, { kind: 'new', text: long }])).toEqual([{ kind: 'same', text: 'short' }, { kind: 'new', text: long }]);
  });
});

describe('a default role', () => {
  const settings = { settings: { gateway: { role: 'Radio' }, chat: { role: '', model: 'Radio' } }, sources: {} };

  it('is the value of a setting, and none if empty', () => {
    expect([roleFor(settings, 'gateway', []), roleFor(settings, 'chat', [])]).toEqual(['Radio', '']);
    expect(roleFor({ settings: {}, sources: {} }, 'chat', [])).toBe('');
    expect(keyFor('gateway')).toBe('gateway.role');
  });

  it('is found by name and by id', () => {
    const radio = { id: '1', name: 'Radio' } as Role;
    const clock = { id: '2', name: 'Clock' } as Role;
    expect([kindsWith(settings, radio), kindsWith(settings, clock), kindsWith(null, radio)]).toEqual([['gateway'], [], []]);
    const byId = { settings: { chat: { role: '2' } }, sources: {} };
    expect([kindsWith(byId, clock), kindsWith(byId, radio)]).toEqual([['chat'], []]);
    expect(roleFor(settings, 'gateway', [clock, radio])).toBe('1');
  });
});
