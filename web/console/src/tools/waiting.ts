// Calls that wait for a person's yes: their arguments as text, and the time that is left. Not for showing or ending them.
import type { WaitingCall } from '../lib/types';

/**
 * Returns arguments in JSON with one value a line. What is no JSON, or would not be the same afterwards, such as numbers with
 * many digits, stays as it is: a person decides by it.
 */
export function indented(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return withoutStrings(JSON.stringify(value)) === withoutStrings(text) ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

const withoutStrings = (json: string) => json.replace(/"(\\.|[^"\\])*"/g, '""').replace(/\s/g, '');

/** Returns the seconds that are left `now`, of an answer that came at `at`, both in milliseconds. */
export function secondsLeft(call: Pick<WaitingCall, 'seconds_left'>, at: number, now: number): number {
  return Math.max(0, Math.ceil(call.seconds_left - Math.max(0, now - at) / 1_000));
}
