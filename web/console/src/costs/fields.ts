// The settings of the section `usage` in groups, and the fault of a value. Not for texts, nor for saving them.

export const GROUPS = [
  { group: 'total', fields: ['total_tokens', 'total_seconds', 'total_cost'] },
  { group: 'device', fields: ['device_tokens', 'device_seconds', 'device_cost'] },
  { group: 'prices', fields: ['asr_price_per_hour', 'tts_price_per_million_chars', 'currency'] },
  { group: 'keeping', fields: ['retention_days'] },
] as const;
export type UsageField = (typeof GROUPS)[number]['fields'][number];

export const FIELDS: readonly UsageField[] = GROUPS.flatMap(({ fields }): readonly UsageField[] => fields);
const MONEY: readonly UsageField[] = ['total_cost', 'device_cost', 'asr_price_per_hour', 'tts_price_per_million_chars'];

export const keyOf = (field: UsageField): string => `usage.${field}`;
export const isMoney = (field: UsageField): boolean => MONEY.includes(field);

/** Returns the kind of number that a text should be but is not; null if it is valid or not loaded yet. */
export function faultOf(field: UsageField, text: string | undefined): 'whole' | 'amount' | null {
  if (text === undefined || field === 'currency') return null;
  const typed = text.trim();
  if (isMoney(field)) return /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed) && Number.isFinite(Number(typed)) ? null : 'amount';
  return /^\d+$/.test(typed) && Number.isSafeInteger(Number(typed)) ? null : 'whole';
}
