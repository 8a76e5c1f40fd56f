// The typed fields of a form that sets a password or adds an account, with the fault of each field. Not for sending them.
import { tick } from 'svelte';
import { t } from '../i18n/index.svelte';
import { errorText } from '../i18n/problem';
import { ApiError } from '../lib/errors';
import { type Field, fieldRefused, FIELDS, passwordFault, type Reason, repeatFault } from './checks';

/** A reason with a text of its own, or the server's error. */
type Fault = Reason | { error: unknown };

export class Draft {
  name = $state('');
  secret = $state('');
  password = $state('');
  repeat = $state('');
  private faults = $state.raw<Partial<Record<Field, Fault | null>>>({});

  /** Returns the fault of a field in the current language; empty if it is valid. */
  why(field: Field): string {
    const fault = this.faults[field];
    if (!fault) return '';
    return typeof fault === 'string' ? t(`setup.wrong.${fault}`) : errorText(fault.error);
  }

  /** Sets the text of a field and clears its fault. */
  type(field: Field, text: string): void {
    this[field] = text;
    this.faults = { ...this.faults, [field]: null };
  }

  /** Checks the password; the caller passes the faults of the other fields. Returns true if the form may be sent. */
  check(others: Partial<Record<'name' | 'secret', Reason | null>> = {}): boolean {
    this.faults = { ...others, password: passwordFault(this.password), repeat: repeatFault(this.password, this.repeat) };
    return FIELDS.every((field) => !this.faults[field]);
  }

  /** Shows why a password was refused at the field concerned. Returns false if it concerns none of them. */
  refuse(error: unknown, secret: Reason): boolean {
    const field = fieldRefused(error);
    if (field === null || !(error instanceof ApiError)) return false;
    if (field === 'secret') this.faults = { secret: error.status === 429 ? 'tooMany' : secret };
    else this.tell(field, error);
    return true;
  }

  /** Shows the server's error at a field. */
  tell(field: Field, error: unknown): void {
    this.faults = { [field]: { error } };
  }

  clear(): void {
    for (const field of FIELDS) this.type(field, '');
  }
}

/** Moves the focus to the first invalid field of a form. */
export async function focusFault(form: HTMLElement | undefined): Promise<void> {
  await tick();
  form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
}
