// What a person heard of an answer. Not for showing it.
import type { Turn } from '../lib/types';

/** Returns what was said without the end that was cut off; all of it where the end is not known to be its end. */
export function heardPart({ said, cut_off }: Pick<Turn, 'said' | 'cut_off'>): string {
  if (!said) return '';
  if (!cut_off || !said.endsWith(cut_off)) return said;
  return said.slice(0, said.length - cut_off.length).trimEnd();
}
