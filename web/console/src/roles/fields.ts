// What a role says as the form holds it: its fields, what of them differs, and which one a refusal is about. Not for words.
import { ApiError } from '../lib/errors';
import type { RoleFields, RoleTrial } from '../lib/types';

export type RoleField = keyof RoleFields;
export const FIELDS: readonly RoleField[] = [
  'name', 'system_prompt', 'model', 'temperature', 'max_tokens', 'voice', 'language', 'tools_off', 'interruption', 'memory', 'history',
  'daily_tokens', 'daily_seconds', 'daily_cost',
];
/** Longest instructions, in characters. */
export const MOST_PROMPT = 8_000;

/** Returns the fields of a role alone, in a copy. */
export function fieldsOf(role: RoleFields): RoleFields {
  const { name, system_prompt, model, temperature, max_tokens, voice, language, tools_off, interruption, memory, history } = role;
  const { daily_tokens, daily_seconds, daily_cost } = role;
  return {
    name, system_prompt, model, temperature, max_tokens, voice, language, tools_off: [...tools_off], interruption, memory, history,
    daily_tokens, daily_seconds, daily_cost,
  };
}

/** Returns fields as they are sent: without spaces around short texts, and null for a number that is not there. */
export function tidied(fields: RoleFields): RoleFields {
  return {
    ...fieldsOf(fields),
    name: fields.name.trim(), model: fields.model.trim(), voice: fields.voice.trim(),
    temperature: fields.temperature ?? null, max_tokens: fields.max_tokens ?? null,
    daily_tokens: fields.daily_tokens ?? null, daily_seconds: fields.daily_seconds ?? null, daily_cost: fields.daily_cost ?? null,
  };
}

/** Returns which fields differ. The order of tool sources means nothing. */
export function changedFields(before: RoleFields, after: RoleFields): RoleField[] {
  const text = (value: unknown) => JSON.stringify(Array.isArray(value) ? [...value].sort() : value);
  return FIELDS.filter((field) => text(before[field]) !== text(after[field]));
}

/** Returns the fields that differ with their new values. */
export function changesOf(before: RoleFields, after: RoleFields): Partial<RoleFields> {
  return Object.fromEntries(changedFields(before, after).map((field) => [field, after[field]]));
}

/** Returns stored fields with what was typed since the others were sent. */
export function withTyped(stored: RoleFields, sent: RoleFields, typed: RoleFields): RoleFields {
  return { ...stored, ...changesOf(sent, typed) };
}

/** Returns what is sent to try a role: fields that are empty are left out. */
export function trialOf(text: string, fields: RoleFields): RoleTrial {
  const { system_prompt, model, temperature, max_tokens, language } = tidied(fields);
  const given = Object.entries({ system_prompt, model, temperature, max_tokens, language }).filter(([, value]) => value !== null && value !== '');
  return { text, ...Object.fromEntries(given) };
}

/** Counts characters as the server does. */
export function length(text: string): number {
  return [...text].length;
}

/** Returns the field that a refusal is about; null where it is about none of them. */
export function fieldNamed(error: unknown): RoleField | null {
  if (!(error instanceof ApiError)) return null;
  // Names are what can be taken; the other conflict is that there are as many roles as may be.
  if (error.status === 409) return /\b\d+ roles\b/.test(error.message) ? null : 'name';
  if (error.status !== 400 && error.status !== 422) return null;
  const quoted = [...error.message.matchAll(/`(?:\w+\.)?(\w+)`/g)].map((match) => match[1]);
  return FIELDS.find((field) => quoted.includes(field)) ?? (/\bname\b/.test(error.message) ? 'name' : null);
}
