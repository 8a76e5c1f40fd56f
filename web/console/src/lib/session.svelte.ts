// The session: the logged-in account and its credentials. There are two credentials: the access token of a login with a
// password, and the admin token, which opens all routes except `/api/admin` and `/api/accounts`. Both are stored until
// this tab closes. The door of a route selects the credential. Not for the login form, nor for access levels: see
// rights.ts.
import { ApiError } from './errors';
import { call, read, send, type Sent } from './http';
import { type Account, ADMIN, isAtLeast, LEAST, type Right } from './rights';
import type { Screen } from './router.svelte';
import { recallSession, rememberSession } from './storage';
import type { TokenPair } from './types';

/** Routes by required credential: an access token, an access token or the admin token, or none. */
export type Door = 'admin' | 'operator' | 'open';

interface Tokens { access: string; refresh: string; expires: number }
/** Credential of the operator's routes: the access token if the server accepts it, or the admin token. */
type Operator = { kind: 'access' } | { kind: 'token'; token: string };
interface Kept { tokens: Tokens | null; operator: Operator | null }
interface Passed { old: string; tokens: Tokens }

/** Account of a login with the admin token. */
const HOLDER: Account = { name: ADMIN, right: 'administrator' };
/** Time before its expiry at which an access token is refreshed, in milliseconds. */
const EARLY = 60_000;
/** Delay before a failed refresh is retried, in milliseconds. */
const AGAIN = 10_000;
const NAME = 'session';

class Session {
  tokens = $state<Tokens | null>(null);
  operator = $state<Operator | null>(null);
  /** The logged-in account; null until the server has returned it. */
  account = $state.raw<Account | null>(null);
  /** True if the last session expired or was revoked, rather than logged out. */
  ended = $state(false);
  private refreshing: Promise<boolean> | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private tabs = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('hearken.session');

  constructor() {
    this.restore();
    // A duplicated tab holds the same refresh token, which is valid only once.
    this.tabs?.addEventListener('message', (event: MessageEvent<Passed>) => {
      if (this.tokens && event.data.old === this.tokens.refresh) this.keep(event.data.tokens);
    });
  }

  get isIn(): boolean {
    return this.tokens !== null || this.operator !== null;
  }

  get name(): string {
    return this.account?.name ?? '';
  }

  get right(): Right | null {
    return this.account?.right ?? null;
  }

  /** Returns true if the account has this access level or a higher one. */
  may(least: Right): boolean {
    return this.right !== null && isAtLeast(this.right, least);
  }

  /** Returns true if the account may see a screen. */
  maySee(screen: Screen): boolean {
    return this.may(LEAST[screen]);
  }

  /** Logs in with a name and a password, or with the admin token. */
  async logIn(name: string, secret: string): Promise<void> {
    const tokens = await passwordLogIn(name, secret);
    const isAdmin = name.toLowerCase() === ADMIN;
    const operator = tokens || isAdmin ? await operatorBy(tokens, isAdmin ? secret : '') : null;
    if (!tokens && !operator) throw new ApiError(401, 'UNAUTHORIZED', '');
    await this.enter(tokens, operator);
  }

  /** Adds the other credential: the admin token after a login with the password, or vice versa. */
  async unlock(secret: string): Promise<void> {
    const tokens = this.tokens ?? (await passwordLogIn(ADMIN, secret));
    const operator = this.operator ?? (await operatorBy(null, secret));
    if ((tokens !== null) === (this.tokens !== null) && (operator !== null) === (this.operator !== null)) {
      throw new ApiError(401, 'UNAUTHORIZED', '');
    }
    this.operator = operator;
    this.keep(tokens);
  }

  /** Sets the first password with the code from the server log, and logs in. */
  async choosePassword(code: string, password: string): Promise<void> {
    const pair = await call<TokenPair>('/api/admin/setup', { method: 'POST', body: { code, password } });
    const tokens = tokensOf(pair);
    await this.enter(tokens, await operatorBy(tokens, ''));
  }

  /** Loads the logged-in account with its access level. */
  recognise = async (): Promise<void> => {
    const account = this.tokens ? await this.call<Account>('admin', '/api/account') : HOLDER;
    if (this.isIn) this.account = account;
  };

  /** Changes the own password, and continues with the new tokens from the server. */
  async changePassword(current: string, password: string): Promise<void> {
    // Refreshes the access token or ends the session if due: a refusal below then concerns `current`.
    await this.recognise();
    const old = this.tokens?.refresh ?? '';
    const sent = { method: 'POST', body: { current, password }, bearer: this.bearer('admin') };
    const tokens = tokensOf(await call<TokenPair>('/api/admin/password', sent));
    this.keep(tokens);
    this.tabs?.postMessage({ old, tokens } satisfies Passed);
  }

  async logOut(): Promise<void> {
    const access = this.tokens?.access;
    this.end(false);
    // The tokens are already dropped here, regardless of the response.
    if (access) await send('/api/admin/logout', { method: 'POST', bearer: access }).catch(() => undefined);
  }

  end(byItself: boolean): void {
    if (!this.isIn) return;
    this.ended = byItself;
    this.operator = null;
    this.account = null;
    this.keep(null);
  }

  /** Returns true if there is a credential for this door. */
  opens(door: Door): boolean {
    return door === 'open' || (door === 'admin' ? this.tokens !== null : this.operator !== null);
  }

  /** Sends a request with the credential of its door and reads the response. */
  async call<T>(door: Door, path: string, sent: Sent = {}): Promise<T> {
    return read<T>(await this.send(door, path, sent));
  }

  /**
   * Sends a request with the credential of its door. Refreshes the token if necessary. A refusal ends the session, unless
   * `tries` is set.
   */
  async send(door: Door, path: string, sent: Sent = {}, tries = false): Promise<Response> {
    if (!this.opens(door)) throw new ApiError(401, 'LOCKED', '');
    const usesAccess = door === 'admin' || this.operator?.kind === 'access';
    if (usesAccess && this.tokens && this.tokens.expires - Date.now() < EARLY / 2) await this.refresh().catch(() => undefined);
    const first = await send(path, { ...sent, bearer: this.bearer(door) });
    if (first.status !== 401) return first;
    if (usesAccess && (await this.refresh())) {
      const second = await send(path, { ...sent, bearer: this.bearer(door) });
      if (second.status !== 401) return second;
    }
    // Routes that need no credential, or a token of their own, do not concern this session.
    if (tries || door === 'open') throw new ApiError(401, 'LOCKED', '');
    this.end(true);
    throw new ApiError(401, 'UNAUTHORIZED', '');
  }

  /** Starts a session, after loading its account. */
  private async enter(tokens: Tokens | null, operator: Operator | null): Promise<void> {
    const account = tokens ? await call<Account>('/api/account', { bearer: tokens.access }) : HOLDER;
    this.ended = false;
    this.operator = operator;
    this.account = account;
    this.keep(tokens);
  }

  private bearer(door: Door): string | null {
    if (door !== 'admin' && this.operator?.kind === 'token') return this.operator.token;
    return door === 'admin' || this.operator?.kind === 'access' ? (this.tokens?.access ?? null) : null;
  }

  private refresh(): Promise<boolean> {
    this.refreshing ??= this.exchange().finally(() => (this.refreshing = null));
    return this.refreshing;
  }

  private async exchange(): Promise<boolean> {
    const old = this.tokens?.refresh;
    if (!old) return false;
    try {
      const body = { refresh_token: old };
      const tokens = tokensOf(await call<TokenPair>('/api/admin/refresh', { method: 'POST', body }));
      // Another tab may have sent the next pair in the meantime.
      if (this.tokens?.refresh === old) this.keep(tokens);
      this.tabs?.postMessage({ old, tokens: { ...tokens } } satisfies Passed);
      return true;
    } catch (error) {
      // The next pair may have arrived in the meantime, from another tab or after a password change.
      if (this.tokens?.refresh !== old) return this.tokens !== null;
      if (!(error instanceof ApiError && error.status === 401)) {
        // Other errors do not concern the session: retry.
        this.refreshIn(AGAIN);
        throw error;
      }
      this.end(true);
      return false;
    }
  }

  private keep(tokens: Tokens | null): void {
    this.tokens = tokens;
    const kept: Kept = { tokens, operator: $state.snapshot(this.operator) };
    rememberSession(NAME, this.isIn ? JSON.stringify(kept) : null);
    clearTimeout(this.timer);
    if (tokens) this.refreshIn(Math.max(1_000, tokens.expires - Date.now() - EARLY));
  }

  private refreshIn(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh().catch(() => undefined), ms);
  }

  private restore(): void {
    try {
      const kept = JSON.parse(recallSession(NAME) ?? 'null') as Kept | null;
      if (!kept) return;
      this.operator = kept.operator;
      this.keep(kept.tokens);
    } catch {
      rememberSession(NAME, null);
    }
  }
}

function tokensOf(pair: TokenPair): Tokens {
  return { access: pair.access_token, refresh: pair.refresh_token, expires: Date.now() + pair.expires_in * 1_000 };
}

/** Returns the tokens of a login; null if the name or the password is wrong, or login is disabled. */
async function passwordLogIn(username: string, password: string): Promise<Tokens | null> {
  const response = await send('/api/admin/login', { method: 'POST', body: { username, password } });
  if (response.status === 401 || response.status === 404) return null;
  return tokensOf(await read<TokenPair>(response));
}

const opensDevices = async (bearer: string | null) => (await send('/api/devices?limit=1', { bearer })).status !== 401;

/** Returns the first of these credentials that opens the operator's routes; null if none does. */
async function operatorBy(tokens: Tokens | null, secret: string): Promise<Operator | null> {
  if (tokens && (await opensDevices(tokens.access))) return { kind: 'access' };
  return (await opensDevices(secret)) ? { kind: 'token', token: secret } : null;
}

export const session = new Session();
