// Pending confirmations: their arguments as text, the remaining time, and the result of dropping one. Not for showing them,
// nor for the requests.
import { ApiError } from '../lib/errors';
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

/** Returns the key of the notice after a request to drop a call. Throws its error, unless the call is not pending. */
export async function dropped(request: Promise<unknown>): Promise<'waiting.dropped' | 'waiting.gone'> {
  try {
    await request;
    return 'waiting.dropped';
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return 'waiting.gone';
    throw error;
  }
}

/** Returns the seconds left at `now` for a response received at `at`, both in milliseconds. */
export function secondsLeft(call: Pick<WaitingCall, 'seconds_left'>, at: number, now: number): number {
  return Math.max(0, Math.ceil(call.seconds_left - Math.max(0, now - at) / 1_000));
}
