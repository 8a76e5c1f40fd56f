// Checks before a new password or account is sent: the code from the server log, the name, the password and its
// repetition; and the field that an error of the server concerns. Not for texts.
import { ApiError } from '../lib/errors';

export const FIELDS = ['name', 'secret', 'password', 'repeat'] as const;
/** Fields of the forms. The name belongs to a new account; the secret is the code of the server, or the current password. */
export type Field = (typeof FIELDS)[number];
/** Reasons with a text in the dictionaries, as `setup.wrong.REASON`. */
export type Reason = 'missing' | 'digits' | 'name' | 'code' | 'current' | 'length' | 'spaces' | 'differs' | 'tooMany';

const LEAST = 8;
const MOST = 128;

/** Returns the code in an address such as `#/setup?code=4821-9035`; null for other addresses. */
export function codeIn(hash: string): string | null {
  const found = /^#\/?setup\/?(?:\?(.*))?$/.exec(hash);
  return found ? (new URLSearchParams(found[1] ?? '').get('code') ?? '').trim() : null;
}

/** Returns a typed code in the server's form, such as `4821-9035`; null unless it has eight digits. */
export function codeOf(typed: string): string | null {
  // Chinese and Japanese keyboards produce full-width digits and dashes.
  const digits = typed.normalize('NFKC').replace(/[\s\p{Dash}]/gu, '');
  return /^\d{8}$/.test(digits) ? `${digits.slice(0, 4)}-${digits.slice(4)}` : null;
}

/** Returns the fault of a typed code. */
export function codeFault(typed: string): Reason | null {
  if (typed.trim() === '') return 'missing';
  return codeOf(typed) === null ? 'digits' : null;
}

/** Returns the fault of the name of a new account. The server decides which letters are allowed. */
export function nameFault(name: string): Reason | null {
  if (name === '') return 'missing';
  return /^[\p{L}\p{N}._-]{1,40}$/u.test(name) ? null : 'name';
}

/** Returns the fault of a new password. Characters are counted like the server does. */
export function passwordFault(password: string): Reason | null {
  if (password === '') return 'missing';
  const count = [...password].length;
  if (count < LEAST || count > MOST) return 'length';
  // The login trims the password.
  return password === password.trim() ? null : 'spaces';
}

/** Returns the fault of the repetition of a password. */
export function repeatFault(password: string, repeat: string): Reason | null {
  if (repeat === '') return 'missing';
  return repeat === password ? null : 'differs';
}

/** Returns the field that an error of a password form concerns; null if it concerns none. */
export function fieldRefused(error: unknown): Field | null {
  if (!(error instanceof ApiError)) return null;
  if (error.status === 400) return 'password';
  return error.status === 401 || error.status === 429 ? 'secret' : null;
}

/** Returns the field that an error of an account form concerns; null if it concerns none. */
export function accountFieldRefused(error: unknown): Field | null {
  if (!(error instanceof ApiError)) return null;
  if (error.status === 409) return 'name';
  if (error.status !== 400) return null;
  return /password/i.test(error.message) ? 'password' : 'name';
}
