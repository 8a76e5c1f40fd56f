// Kept turns by day and client, the times of an answer as its timeline tells them, and as much of it as is spoken to try a
// voice. Not for loading or showing them.
import type { HistorySummary, KeptTurn, Turn } from '../lib/types';

export interface Group { key: string; client: string; began: string; turns: KeptTurn[] }

/** Groups turns by the day in this time zone and by client. Groups, and turns in them, keep the order of the turns. */
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

/** Returns each client once, the latest first. */
export function clientsOf(summary: Pick<HistorySummary, 'clients'>): string[] {
  return [...new Set(summary.clients.map((one) => one.client))];
}

/** Returns how long the model took: to its first word, and from its begin to its end. Null where it is not known. */
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

/** Most characters that the server lets the synthesiser speak in a test. */
const SPOKEN = 1_000;

/** Returns as much of a text as can be spoken at once, up to the end of a word where it is longer. */
export function beginningOf(text: string): string {
  const letters = [...text.trim()];
  if (letters.length <= SPOKEN) return letters.join('');
  const cut = letters.slice(0, SPOKEN).join('');
  const end = cut.search(/\s+\S*$/);
  return end > 0 ? cut.slice(0, end) : cut;
}
