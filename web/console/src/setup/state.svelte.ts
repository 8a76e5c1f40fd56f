// Whether this server has a password, if it reveals that. Not for choosing or changing it.
import { passwordState } from '../lib/api';
import type { PasswordState } from '../lib/types';

/** The login is shown after this many milliseconds without an answer. */
const PATIENCE = 3_000;

class Password {
  /** Null until the first answer; `unknown` if the server does not reveal it. */
  state = $state<PasswordState | 'unknown' | null>(null);
  /** True if the user wants to log in instead of choosing a password. */
  instead = $state(false);

  /** True if the first page asks for a new password. */
  get isFirstRun(): boolean {
    return this.state === 'none' && !this.instead;
  }

  async load(): Promise<void> {
    this.state = await passwordState(AbortSignal.timeout(PATIENCE)).catch(() => 'unknown' as const);
  }
}

export const password = new Password();
