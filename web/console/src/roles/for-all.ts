// The settings that give a role to all clients of a kind, where they bring none of their own. Not for changing them.
import type { Settings } from '../lib/types';

/** The settings, whose values are names of roles; an empty one is no role. */
export const FOR_ALL = ['gateway', 'chat'] as const;
export type ForAllOf = (typeof FOR_ALL)[number];

export const keyFor = (kind: ForAllOf) => `${kind}.role` as const;

/** Returns the name of the role that all clients of a kind have. */
export function roleFor(settings: Settings, kind: ForAllOf): string {
  const name = settings.settings[kind]?.role;
  return typeof name === 'string' ? name : '';
}

/** Returns the kinds of clients that all have a role. */
export function kindsWith(settings: Settings | null, name: string): ForAllOf[] {
  return settings ? FOR_ALL.filter((kind) => roleFor(settings, kind) === name) : [];
}
