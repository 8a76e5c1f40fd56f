// Recent calls of services: the failed ones, a summary line of each, and its properties. Not for texts.
import { duration, number } from '../lib/format';
import type { CallFields, CallPart, ServiceCall, ServiceCalls } from '../lib/types';

/** Number of calls shown, and number that the server holds per service, which are searched for failures. */
export const SHOWN = 50;
export const KEPT = 200;

/** Properties other than the text, in display order. */
const FIELDS = [
  'model', 'voice', 'messages', 'tools', 'characters', 'max_tokens', 'temperature', 'audio_ms', 'calls', 'prompt_tokens',
  'completion_tokens',
] as const satisfies readonly (keyof CallFields)[];
export type Fact = (typeof FIELDS)[number];

/** Returns the failed calls of all these responses, newest first. */
export function failedOf(answers: readonly ServiceCalls[]): ServiceCalls {
  const failed = answers.flatMap(({ calls }) => calls).filter((call) => call.outcome === 'failed');
  const at = (call: ServiceCall) => Date.parse(call.began);
  return { words: answers.every(({ words }) => words), calls: failed.sort((a, b) => at(b) - at(a) || b.number - a.number) };
}

/** Returns one line about a call: the error, or the request and the response; empty without texts. */
export function lineOf({ error, sent, got }: ServiceCall): string {
  const parts = error ? [error] : [sent?.text, got?.text, got?.calls?.join(', ')];
  return parts.map((part) => (part ?? '').replace(/\s+/g, ' ').trim()).filter((part) => part !== '').join(' → ');
}

/** Returns the known properties as text; empty for values that the service chooses itself. */
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
