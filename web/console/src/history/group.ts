// Stored turns by day and client, the model's times in a turn, and the part of a reply that is spoken to try a voice.
// Not for loading or showing turns.
import type { HistorySummary, KeptTurn, Turn } from '../lib/types';

export interface Group { key: string; client: string; began: string; turns: KeptTurn[] }

/** Groups turns by day (local time zone) and client, in the order of the turns. */
export function grouped(turns: readonly KeptTurn[]): Group[] {
  const groups = new Map<string, Group>();
  for (const turn of turns) {
    const key = `${dayOf(turn.began)} ${turn.client}`;
    const group = groups.get(key);
    if (group) group.turns.push(turn);
    else groups.set(key, { key, client: turn.client, began: turn.began, turns: [turn] });
  }
  return [...groups.values()];
}

function dayOf(text: string): string {
  const at = new Date(text);
  return `${at.getFullYear()}-${at.getMonth() + 1}-${at.getDate()}`;
}

/** Returns each client once, most recent first. */
export function clientsOf(summary: Pick<HistorySummary, 'clients'>): string[] {
  return [...new Set(summary.clients.map((one) => one.client))];
}

/** Returns the model's times in milliseconds: to its first word, and in total; null if unknown. */
export function modelTimes(turn: Pick<Turn, 'spans'>): { first: number | null; total: number | null } {
  const named = (name: string) => turn.spans.filter((span) => span.name === name && span.end_ms !== null);
  const first = named('model_first_word')[0];
  const models = named('model');
  const ends = models.map((span) => span.end_ms ?? span.start_ms);
  const begin = Math.min(...models.map((span) => span.start_ms));
  return {
    first: first ? (first.end_ms ?? first.start_ms) - first.start_ms : null,
    total: models.length > 0 ? Math.max(...ends) - begin : null,
  };
}

/** Maximum number of characters that the server synthesises in a test. */
const SPOKEN = 1_000;

/** Returns the part of a text that can be synthesised at once, cut at the end of a word if it is too long. */
export function beginningOf(text: string): string {
  const letters = [...text.trim()];
  if (letters.length <= SPOKEN) return letters.join('');
  const cut = letters.slice(0, SPOKEN).join('');
  const end = cut.search(/\s+\S*$/);
  return end > 0 ? cut.slice(0, end) : cut;
}
