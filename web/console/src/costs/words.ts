// Texts for usage and limits. Not for the numbers: see amounts.ts.
import { language, t } from '../i18n/index.svelte';
import { href } from '../lib/router.svelte';
import type { Measure, UsageKind, UsageLimits } from '../lib/types';
import { amountText, MEASURES, type NamedLimit } from './amounts';

const KINDS = { voice: 'nav.devices', text: 'section.gateway', chat: 'section.chat', museum: 'section.museum', trial: 'costs.trial' } as const;

export const labelOf = (measure: Measure): string => t(`costs.measure.${measure}`);
export const kindOf = (kind: UsageKind): string => t(KINDS[kind]);
export const inWords = (amount: number, measure: Measure, currency: string): string => amountText(amount, measure, currency, language.tag);

/** Returns the limits that are set as text; 0 is no limit. */
export function limitsOf(limits: UsageLimits, currency: string): string {
  const set = MEASURES.filter((measure) => limits[measure] > 0);
  const named = set.map((measure) => `${labelOf(measure)}: ${inWords(limits[measure], measure, currency)}`);
  return named.join(' · ') || t('costs.noLimit');
}

export const reachedText = ({ of, name, limit }: NamedLimit): string => t(`costs.reached.${of}`, { name, measure: labelOf(limit) });

/** Returns the address of the device or role of a limit; null for an overall limit. */
export function placeOf({ of, id }: NamedLimit): string | null {
  return of === 'total' ? null : href(of === 'device' ? 'devices' : 'roles', id);
}
