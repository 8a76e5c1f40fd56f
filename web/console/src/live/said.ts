// The part of a reply that the user heard. Not for showing it.
import type { Turn } from '../lib/types';

/** Returns the reply without the part that was cut off; the whole reply if it does not end with that part. */
export function heardPart({ said, cut_off }: Pick<Turn, 'said' | 'cut_off'>): string {
  if (!said) return '';
  if (!cut_off || !said.endsWith(cut_off)) return said;
  return said.slice(0, said.length - cut_off.length).trimEnd();
}
