// Whether this server has a password, as far as the page may know. Not for choosing or changing it.
import { passwordState } from '../lib/api';
import type { PasswordState } from '../lib/types';

/** The log-in is shown after this many milliseconds without an answer. */
const PATIENCE = 3_000;

class Password {
  /** Null until the first answer; `unknown` where the server does not tell. */
  state = $state<PasswordState | 'unknown' | null>(null);
  /** True if the person wants to log in instead of choosing a password. */
  instead = $state(false);

  /** True if the log-in begins with choosing a password. */
  get isFirstRun(): boolean {
    return this.state === 'none' && !this.instead;
  }

  async load(): Promise<void> {
    this.state = await passwordState(AbortSignal.timeout(PATIENCE)).catch(() => 'unknown' as const);
  }
}

export const password = new Password();
