// Checks typed codes, names and passwords, and the field that an error of the server concerns.
import { describe, expect, it } from 'vitest';
import { ApiError } from '../lib/errors';
import { accountFieldRefused, codeFault, codeIn, codeOf, fieldRefused, nameFault, passwordFault, repeatFault } from './checks';

describe('the code', () => {
  it('is accepted with and without a hyphen, with spaces, and in full width', () => {
    for (const typed of ['4821-9035', '48219035', ' 4821 9035 ', '4821 – 9035', '48 21 90 35', '４８２１－９０３５', '4821‐9035']) {
      expect(codeOf(typed), typed).toBe('4821-9035');
      expect(codeFault(typed), typed).toBeNull();
    }
  });

  it('has eight digits', () => {
    for (const typed of ['4821-903', '4821-90355', '4821-903a', '4821.9035', '-']) {
      expect(codeOf(typed), typed).toBeNull();
      expect(codeFault(typed), typed).toBe('digits');
    }
    expect(codeFault(' ')).toBe('missing');
  });

  it('is read only from an address of the first run', () => {
    expect(codeIn('#/setup?code=4821-9035')).toBe('4821-9035');
    expect(codeIn('#/setup/?x=1&code=4821%209035')).toBe('4821 9035');
    expect(codeIn('#/setup')).toBe('');
    expect(codeIn('#/settings?code=4821-9035')).toBeNull();
    expect(codeIn('')).toBeNull();
  });
});

describe('the password', () => {
  it('has 8 to 128 characters', () => {
    expect(passwordFault('')).toBe('missing');
    expect(passwordFault('1234567')).toBe('length');
    expect(passwordFault('12345678')).toBeNull();
    expect(passwordFault('密码要有八个字符')).toBeNull();
    expect(passwordFault('🔑🔑🔑🔑')).toBe('length');
    expect(passwordFault('🔑'.repeat(128))).toBeNull();
    expect(passwordFault('x'.repeat(129))).toBe('length');
  });

  it('has no spaces at its ends, because the login trims it', () => {
    expect(passwordFault('two words')).toBeNull();
    expect(passwordFault(' two words')).toBe('spaces');
    expect(passwordFault('two words\t')).toBe('spaces');
  });

  it('is typed twice', () => {
    expect(repeatFault('12345678', '')).toBe('missing');
    expect(repeatFault('12345678', '12345679')).toBe('differs');
    expect(repeatFault('12345678', '12345678')).toBeNull();
  });
});

describe('the name of an account', () => {
  it('has 1 to 40 letters, digits, dots, hyphens and underscores', () => {
    for (const name of ['a', 'Anna.B_2-x', '安娜', 'x'.repeat(40)]) expect(nameFault(name), name).toBeNull();
    for (const name of ['anna b', 'a/b', 'a@b', 'x'.repeat(41)]) expect(nameFault(name), name).toBe('name');
    expect(nameFault('')).toBe('missing');
  });
});

describe('a refusal', () => {
  it('of an account concerns the name, the password, or the whole form', () => {
    const field = (status: number, message: string) => accountFieldRefused(new ApiError(status, '', message));
    expect([field(409, 'taken'), field(400, 'bad name'), field(400, 'the password is short')]).toEqual(['name', 'name', 'password']);
    expect([field(403, 'the password'), field(404, ''), accountFieldRefused(new Error('password'))]).toEqual([null, null, null]);
  });

  it('of a password concerns a field, or the whole form', () => {
    const fields = [400, 401, 429, 409, 403, 0].map((status) => fieldRefused(new ApiError(status, '', '')));
    expect(fields).toEqual(['password', 'secret', 'secret', null, null, null]);
    expect(fieldRefused(new Error('x'))).toBeNull();
  });
});
