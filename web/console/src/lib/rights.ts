// What a person who is logged in may do: the rights, and the least right that opens each screen. Not for credentials: see
// session.svelte.ts.
import type { components } from './api-schema';
import type { Screen } from './router.svelte';

export type Right = components['schemas']['Right'];
/** Rights, the least first; each one contains those before it. */
export const RIGHTS = ['guest', 'member', 'administrator'] as const satisfies readonly Right[];

/** Somebody who is logged in. */
export type Account = components['schemas']['Asking'];

/** Name of the administrator that every server has. */
export const ADMIN = 'admin';

/** The least right that opens a screen. */
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

/** Returns true if a right contains another one. A right that this console does not know contains none. */
export function isAtLeast(right: Right, least: Right): boolean {
  return RIGHTS.indexOf(right) >= RIGHTS.indexOf(least);
}
