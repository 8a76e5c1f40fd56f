// What is typed into a form that sets a password or adds an account, and what is wrong with each field. Not for sending it.
import { tick } from 'svelte';
import { t } from '../i18n/index.svelte';
import { ApiError } from '../lib/errors';
import { type Field, fieldRefused, FIELDS, passwordFault, type Reason, repeatFault } from './checks';

/** A reason with words of its own, or the words of the server. */
type Fault = Reason | { told: string };

export class Draft {
  name = $state('');
  secret = $state('');
  password = $state('');
  repeat = $state('');
  private faults = $state.raw<Partial<Record<Field, Fault | null>>>({});

  /** Returns what is wrong with a field, in the language of now; nothing if it is right. */
  why(field: Field): string {
    const fault = this.faults[field];
    if (!fault) return '';
    return typeof fault === 'string' ? t(`setup.wrong.${fault}`) : fault.told;
  }

  /** Types into a field, which takes the reason away. */
  type(field: Field, text: string): void {
    this[field] = text;
    this.faults = { ...this.faults, [field]: null };
  }

  /** Checks the password; the faults of the other fields are given. Returns true if all may be sent. */
  check(others: Partial<Record<'name' | 'secret', Reason | null>> = {}): boolean {
    this.faults = { ...others, password: passwordFault(this.password), repeat: repeatFault(this.password, this.repeat) };
    return FIELDS.every((field) => !this.faults[field]);
  }

  /** Puts the reason why a password was refused at its field. Returns false if it is about none of them. */
  refuse(error: unknown, secret: Reason): boolean {
    const field = fieldRefused(error);
    if (field === null || !(error instanceof ApiError)) return false;
    if (field === 'secret') this.faults = { secret: error.status === 429 ? 'tooMany' : secret };
    else this.tell(field, error);
    return true;
  }

  /** Puts the words of the server at a field. */
  tell(field: Field, error: unknown): void {
    this.faults = { [field]: { told: error instanceof Error ? error.message : String(error) } };
  }

  clear(): void {
    for (const field of FIELDS) this.type(field, '');
  }
}

/** Moves the focus to the first field of a form that is wrong. */
export async function focusFault(form: HTMLElement | undefined): Promise<void> {
  await tick();
  form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
}
