// Texts for the fields of a role and their values. Not for changes: see fields.ts.
import { language, t } from '../i18n/index.svelte';
import { number } from '../lib/format';
import type { RoleFields } from '../lib/types';
import type { RoleField } from './fields';

export const labelOf = (field: RoleField): string => t(`roles.field.${field}`);

/** Returns the name of a language, such as `zh`, in the language of the console. */
export function tongue(code: string): string {
  try {
    return new Intl.DisplayNames([language.tag], { type: 'language' }).of(code) ?? code;
  } catch {
    return code;
  }
}

/** Joins names into a list in the language of the console; names beyond `most` are counted. */
export function listed(names: readonly string[], most = 12): string {
  const shown = names.slice(0, most);
  if (names.length > most) shown.push(t('roles.more', { count: names.length - most }));
  return new Intl.ListFormat(language.tag, { type: 'conjunction', style: 'narrow' }).format(shown);
}

export function valueOf(role: RoleFields, field: RoleField): string {
  switch (field) {
    case 'language': return role.language === null ? t('roles.language.person') : tongue(role.language);
    case 'tools_off': return role.tools_off.length > 0 ? role.tools_off.join(', ') : t('roles.tools.noneOff');
    case 'interruption': return role.interruption === null ? t('roles.configured') : t(`roles.interruption.${role.interruption}`);
    case 'instant': return role.instant === null ? t('roles.instant.default') : t(`roles.instant.${role.instant}`);
    case 'memory': return role.memory ? t('word.yes') : t('word.no');
    case 'history': return role.history === null ? t('roles.configured') : t(`history.keep.${role.history}`);
    case 'daily_tokens': case 'daily_seconds': case 'daily_cost': return limit(role[field]);
    default: return String(role[field] ?? '') || t('roles.configured');
  }
}

const limit = (most: number | null): string => (most === null ? t('roles.limits.none') : number(most, language.tag));
