// The settings that give a role to all clients of a kind, where they bring none of their own. Not for changing them.
import type { Role, Settings } from '../lib/types';

/** The settings, whose values are ids or names of roles; an empty one is no role. */
export const FOR_ALL = ['gateway', 'chat'] as const;
export type ForAllOf = (typeof FOR_ALL)[number];

export const keyFor = (kind: ForAllOf) => `${kind}.role` as const;

/** Returns the id of the role that all clients of a kind have, or what is set where there is no such role. */
export function roleFor(settings: Settings, kind: ForAllOf, all: readonly Role[]): string {
  const set = settings.settings[kind]?.role;
  if (typeof set !== 'string') return '';
  return (all.find((role) => role.id === set) ?? all.find((role) => role.name === set))?.id ?? set;
}

/** Returns the kinds of clients that all have a role. */
export function kindsWith(settings: Settings | null, role: Role): ForAllOf[] {
  return settings ? FOR_ALL.filter((kind) => roleFor(settings, kind, [role]) === role.id) : [];
}
