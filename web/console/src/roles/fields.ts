// The fields of a role in the form: their changes, and the field that an error concerns. Not for texts.
import { ALL_CLIENTS } from '../lib/api';
import { ApiError } from '../lib/errors';
import type { RoleFields, RoleTrial, SourceReport } from '../lib/types';

export type RoleField = keyof RoleFields;
export const FIELDS: readonly RoleField[] = [
  'name', 'system_prompt', 'model', 'temperature', 'max_tokens', 'answer_seconds', 'voice', 'language', 'tools_off', 'interruption', 'instant', 'memory',
  'history',
  'daily_tokens', 'daily_seconds', 'daily_cost',
];
/** Maximum length of the instructions, in characters. */
export const MOST_PROMPT = 8_000;

/** Returns a copy of the fields of a role. */
export function fieldsOf(role: RoleFields): RoleFields {
  const { name, system_prompt, model, temperature, max_tokens, answer_seconds, voice, language, tools_off, interruption, instant } = role;
  const { memory, history, daily_tokens, daily_seconds, daily_cost } = role;
  return {
    name, system_prompt, model, temperature, max_tokens, answer_seconds, voice, language, tools_off: [...tools_off], interruption, instant,
    memory, history, daily_tokens, daily_seconds, daily_cost,
  };
}

/** Returns the fields to send: short texts trimmed, and null for empty numbers. */
export function tidied(fields: RoleFields): RoleFields {
  return {
    ...fieldsOf(fields),
    name: fields.name.trim(), model: fields.model.trim(), voice: fields.voice.trim(),
    temperature: fields.temperature ?? null, max_tokens: fields.max_tokens ?? null,
    answer_seconds: fields.answer_seconds ?? null,
    daily_tokens: fields.daily_tokens ?? null, daily_seconds: fields.daily_seconds ?? null, daily_cost: fields.daily_cost ?? null,
  };
}

/** Returns the fields that differ, regardless of the order of tool sources. */
export function changedFields(before: RoleFields, after: RoleFields): RoleField[] {
  const text = (value: unknown) => JSON.stringify(Array.isArray(value) ? [...value].sort() : value);
  return FIELDS.filter((field) => text(before[field]) !== text(after[field]));
}

/** Returns the fields that differ with their new values. */
export function changesOf(before: RoleFields, after: RoleFields): Partial<RoleFields> {
  return Object.fromEntries(changedFields(before, after).map((field) => [field, after[field]]));
}

/** Returns the stored fields with the changes typed since `sent` was sent. */
export function withTyped(stored: RoleFields, sent: RoleFields, typed: RoleFields): RoleFields {
  return { ...stored, ...changesOf(sent, typed) };
}

/** Returns the body of a trial, without empty fields. */
export function trialOf(text: string, fields: RoleFields): RoleTrial {
  const { system_prompt, model, temperature, max_tokens, language } = tidied(fields);
  const given = Object.entries({ system_prompt, model, temperature, max_tokens, language }).filter(([, value]) => value !== null && value !== '');
  return { text, ...Object.fromEntries(given) };
}

/** Returns the number of characters, counted like the server does. */
export function length(text: string): number {
  return [...text].length;
}

/** Returns the field that an error concerns; null if it concerns none. */
export function fieldNamed(error: unknown): RoleField | null {
  if (!(error instanceof ApiError)) return null;
  // A conflict is a taken name, or the maximum number of roles.
  if (error.status === 409) return /\b\d+ roles\b/.test(error.message) ? null : 'name';
  if (error.status !== 400 && error.status !== 422) return null;
  const quoted = [...error.message.matchAll(/`(?:\w+\.)?(\w+)`/g)].map((match) => match[1]);
  return FIELDS.find((field) => quoted.includes(field)) ?? (/\bname\b/.test(error.message) ? 'name' : null);
}

/** Switch of tool sources: the entry of `tools_off` that it makes, and all entries that disable them. */
export interface SourceSwitch { entry: string; entries: readonly string[]; names: readonly string[]; isKnown: boolean }

/** Returns the switches of the current sources, and of disabled ones that are not available. Tool clients are disabled by their token: they choose their names. */
export function switchesOf(sources: readonly Pick<SourceReport, 'name' | 'key'>[], off: readonly string[]): SourceSwitch[] {
  const names = new Map<string, string[]>();
  for (const { name, key = name } of sources) names.set(key, [...(names.get(key) ?? []), name]);
  const known = [...names].map(([entry, names]) => ({ entry, entries: [...new Set([entry, ...names])], names, isKnown: true }));
  const entries = known.flatMap((one) => one.entries);
  const others = off.filter((entry) => entry !== ALL_CLIENTS && !entries.includes(entry));
  return [...known, ...others.map((entry) => ({ entry, entries: [entry], names: [entry], isKnown: false }))];
}
