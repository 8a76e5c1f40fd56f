// Checks what is read out of a typed code, and what is refused before it is sent.
import { describe, expect, it } from 'vitest';
import { ApiError } from '../lib/errors';
import { codeFault, codeIn, codeOf, fieldRefused, passwordFault, repeatFault } from './checks';

describe('the code', () => {
  it('is accepted with and without a hyphen, spaces, and in full width', () => {
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

  it('is taken from an address of the first run only', () => {
    expect(codeIn('#/setup?code=4821-9035')).toBe('4821-9035');
    expect(codeIn('#/setup/?x=1&code=4821%209035')).toBe('4821 9035');
    expect(codeIn('#/setup')).toBe('');
    expect(codeIn('#/settings?code=4821-9035')).toBeNull();
    expect(codeIn('')).toBeNull();
  });
});

describe('the password', () => {
  it('has 8 to 128 characters, as a person counts them', () => {
    expect(passwordFault('')).toBe('missing');
    expect(passwordFault('1234567')).toBe('length');
    expect(passwordFault('12345678')).toBeNull();
    expect(passwordFault('密码要有八个字符')).toBeNull();
    expect(passwordFault('🔑🔑🔑🔑')).toBe('length');
    expect(passwordFault('🔑'.repeat(128))).toBeNull();
    expect(passwordFault('x'.repeat(129))).toBe('length');
  });

  it('has spaces inside only, because the log-in leaves out the others', () => {
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

describe('a refusal', () => {
  it('is told at its field, or for the whole form', () => {
    const fields = [400, 401, 429, 409, 403, 0].map((status) => fieldRefused(new ApiError(status, '', '')));
    expect(fields).toEqual(['password', 'secret', 'secret', null, null, null]);
    expect(fieldRefused(new Error('x'))).toBeNull();
  });
});
