// Calls of services as a person looks for them: those that failed, a line about each, and what is told of it. Not for words.
import { duration, number } from '../lib/format';
import type { CallFields, CallPart, ServiceCall, ServiceCalls } from '../lib/types';

/** So many calls are shown; the server keeps so many of each service, in which those that failed are looked for. */
export const SHOWN = 50;
export const KEPT = 200;

/** Fields beside the text, in the order in which they are shown. */
const FIELDS = [
  'model', 'voice', 'messages', 'tools', 'characters', 'max_tokens', 'temperature', 'audio_ms', 'calls', 'prompt_tokens',
  'completion_tokens',
] as const satisfies readonly (keyof CallFields)[];
export type Fact = (typeof FIELDS)[number];

/** Returns the calls of all these answers that failed, the newest first. */
export function failedOf(answers: readonly ServiceCalls[]): ServiceCalls {
  const failed = answers.flatMap(({ calls }) => calls).filter((call) => call.outcome === 'failed');
  const at = (call: ServiceCall) => Date.parse(call.began);
  return { words: answers.every(({ words }) => words), calls: failed.sort((a, b) => at(b) - at(a) || b.number - a.number) };
}

/** Returns one line about a call: why it failed, or what was sent and what came back; empty without texts. */
export function lineOf({ error, sent, got }: ServiceCall): string {
  const parts = error ? [error] : [sent?.text, got?.text, got?.calls?.join(', ')];
  return parts.map((part) => (part ?? '').replace(/\s+/g, ' ').trim()).filter((part) => part !== '').join(' → ');
}

/** Returns what is known besides the text, as text; empty for what the service chooses itself. */
export function factsOf(part: CallPart | null, tag: string): { field: Fact; text: string }[] {
  const known = FIELDS.filter((field) => !isMissing(part?.[field]));
  return known.map((field) => ({ field, text: textOf(field, part?.[field], tag) }));
}

const isMissing = (value: unknown) => value === null || value === undefined || (Array.isArray(value) && value.length === 0);

function textOf(field: Fact, value: CallPart[Fact], tag: string): string {
  if (Array.isArray(value)) return value.join(', ');
  if (typeof value !== 'number') return value ?? '';
  return field === 'audio_ms' ? duration(value) : number(value, tag);
}
