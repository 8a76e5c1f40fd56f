// Access levels of accounts, and the level that each screen requires. Not for credentials: see session.svelte.ts.
import type { components } from './api-schema';
import type { Screen } from './router.svelte';

export type Right = components['schemas']['Right'];
/** Access levels, lowest first; each includes those before it. */
export const RIGHTS = ['guest', 'member', 'administrator'] as const satisfies readonly Right[];

/** The logged-in account. */
export type Account = components['schemas']['Asking'];

/** Name of the built-in administrator. */
export const ADMIN = 'admin';

/** Required access level by screen. */
export const LEAST: Record<Screen, Right> = {
  home: 'guest',
  talk: 'guest',
  devices: 'guest',
  account: 'guest',
  live: 'member',
  history: 'member',
  people: 'member',
  roles: 'member',
  services: 'member',
  costs: 'member',
  tools: 'member',
  settings: 'administrator',
  conversations: 'administrator',
  audit: 'administrator',
};

/** Returns true if an access level includes another. A level unknown to this console includes none. */
export function isAtLeast(right: Right, least: Right): boolean {
  return RIGHTS.indexOf(right) >= RIGHTS.indexOf(least);
}
