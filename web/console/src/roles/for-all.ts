// The settings of the default roles of clients. Not for changing them.
import type { Role, Settings } from '../lib/types';

/** Client types; the settings hold ids or names of roles, and empty is no role. */
export const FOR_ALL = ['gateway', 'chat'] as const;
export type ForAllOf = (typeof FOR_ALL)[number];

export const keyFor = (kind: ForAllOf) => `${kind}.role` as const;

/** Returns the id of the default role of a client type, or the value of the setting if there is no such role. */
export function roleFor(settings: Settings, kind: ForAllOf, all: readonly Role[]): string {
  const set = settings.settings[kind]?.role;
  if (typeof set !== 'string') return '';
  return (all.find((role) => role.id === set) ?? all.find((role) => role.name === set))?.id ?? set;
}

/** Returns the client types with this default role. */
export function kindsWith(settings: Settings | null, role: Role): ForAllOf[] {
  return settings ? FOR_ALL.filter((kind) => roleFor(settings, kind, [role]) === role.id) : [];
}
