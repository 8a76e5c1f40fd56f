// Pending confirmations: their arguments as text, and the remaining time. Not for showing or dropping them.
import type { WaitingCall } from '../lib/types';

/**
 * Returns JSON arguments with one value per line. Text that is not JSON, or that formatting would alter, such as numbers
 * with many digits, is unchanged: users decide by it.
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

/** Returns the seconds left at `now` for a response received at `at`, both in milliseconds. */
export function secondsLeft(call: Pick<WaitingCall, 'seconds_left'>, at: number, now: number): number {
  return Math.max(0, Math.ceil(call.seconds_left - Math.max(0, now - at) / 1_000));
}
