// What is checked before a new password or a new account is sent: the code of the server, the name, the password and its
// repetition, and which field a refusal of the server is about. Not for words.
import { ApiError } from '../lib/errors';

export const FIELDS = ['name', 'secret', 'password', 'repeat'] as const;
/** Fields of the forms. The name is that of a new account. The secret is the code of the server, or the password of now. */
export type Field = (typeof FIELDS)[number];
/** Reasons for which words are written in the dictionaries, as `setup.wrong.REASON`. */
export type Reason = 'missing' | 'digits' | 'name' | 'code' | 'current' | 'length' | 'spaces' | 'differs' | 'tooMany';

const LEAST = 8;
const MOST = 128;

/** Returns the code that an address such as `#/setup?code=4821-9035` brings; null if the address is another one. */
export function codeIn(hash: string): string | null {
  const found = /^#\/?setup\/?(?:\?(.*))?$/.exec(hash);
  return found ? (new URLSearchParams(found[1] ?? '').get('code') ?? '').trim() : null;
}

/** Returns a typed code as the server wrote it, such as `4821-9035`; null unless it has eight digits. */
export function codeOf(typed: string): string | null {
  // A keyboard for Chinese or Japanese gives digits and dashes of full width.
  const digits = typed.normalize('NFKC').replace(/[\s\p{Dash}]/gu, '');
  return /^\d{8}$/.test(digits) ? `${digits.slice(0, 4)}-${digits.slice(4)}` : null;
}

/** Returns what is wrong with a typed code. */
export function codeFault(typed: string): Reason | null {
  if (typed.trim() === '') return 'missing';
  return codeOf(typed) === null ? 'digits' : null;
}

/** Returns what is wrong with the name of a new account. The server has the last word on its letters. */
export function nameFault(name: string): Reason | null {
  if (name === '') return 'missing';
  return /^[\p{L}\p{N}._-]{1,40}$/u.test(name) ? null : 'name';
}

/** Returns what is wrong with a new password. Characters are counted as the server does. */
export function passwordFault(password: string): Reason | null {
  if (password === '') return 'missing';
  const count = [...password].length;
  if (count < LEAST || count > MOST) return 'length';
  // The log-in leaves out spaces around what is typed.
  return password === password.trim() ? null : 'spaces';
}

/** Returns what is wrong with the repetition of a password. */
export function repeatFault(password: string, repeat: string): Reason | null {
  if (repeat === '') return 'missing';
  return repeat === password ? null : 'differs';
}

/** Returns the field that a refusal of a password is about; null where it is about none of them. */
export function fieldRefused(error: unknown): Field | null {
  if (!(error instanceof ApiError)) return null;
  if (error.status === 400) return 'password';
  return error.status === 401 || error.status === 429 ? 'secret' : null;
}

/** Returns the field that a refusal of an account is about; null where it is about none of them. */
export function accountFieldRefused(error: unknown): Field | null {
  if (!(error instanceof ApiError)) return null;
  if (error.status === 409) return 'name';
  if (error.status !== 400) return null;
  return /password/i.test(error.message) ? 'password' : 'name';
}
