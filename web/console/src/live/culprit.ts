// The part of a turn with the largest share of the user's wait: arithmetic on intervals. Not for drawing.
import type { Span, Turn } from '../lib/types';

export interface Interval { from: number; to: number }
export interface Share { name: string; ms: number; share: number }
export interface Wait extends Interval { shares: Share[] }

/** Spans that do not cause a wait: the user's speech, and the playback. */
const NO_CAUSE = new Set(['speech', 'playback']);
/** Spans that contain others: they count only for moments that no narrower span covers. */
const WIDE = new Set(['model', 'voice']);

/** Merges overlapping intervals, in order. */
export function union(intervals: readonly Interval[]): Interval[] {
  const joined: Interval[] = [];
  for (const next of [...intervals].filter((i) => i.to > i.from).sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last && next.from <= last.to) last.to = Math.max(last.to, next.to);
    else joined.push({ ...next });
  }
  return joined;
}

export function length(intervals: readonly Interval[]): number {
  return union(intervals).reduce((sum, i) => sum + i.to - i.from, 0);
}

/** Returns the parts of `from` outside of `without`. */
export function subtract(from: readonly Interval[], without: readonly Interval[]): Interval[] {
  let left = union(from);
  for (const gap of union(without)) {
    left = left.flatMap((i) => [
      { from: i.from, to: Math.min(i.to, gap.from) },
      { from: Math.max(i.from, gap.to), to: i.to },
    ]).filter((i) => i.to > i.from);
  }
  return left;
}

/** Returns the wait: from the end of `speech` to `first_packet`. Null if there was none. */
export function waitOf(turn: Pick<Turn, 'spans' | 'events'>): Interval | null {
  const packet = turn.events.find((event) => event.name === 'first_packet');
  if (!packet) return null;
  const ends = turn.spans.filter((span) => span.name === 'speech' && span.end_ms !== null).map((span) => span.end_ms as number);
  const before = ends.filter((end) => end <= packet.at_ms);
  // A typed turn has no speech: its wait starts with the turn.
  const from = before.length > 0 ? Math.max(...before) : ends.length > 0 ? null : 0;
  return from === null || packet.at_ms <= from ? null : { from, to: packet.at_ms };
}

function clipped(spans: readonly Span[], to: Interval): Interval[] {
  return spans.map((span) => ({ from: Math.max(span.start_ms, to.from), to: Math.min(span.end_ms ?? to.to, to.to) }));
}

/** Returns the wait of a turn and each span's share of it, the largest first. */
export function explain(turn: Pick<Turn, 'spans' | 'events'>): Wait | null {
  const wait = waitOf(turn);
  if (!wait) return null;
  const causes = turn.spans.filter((span) => !NO_CAUSE.has(span.name));
  const narrow = clipped(causes.filter((span) => !WIDE.has(span.name)), wait);
  const shares = [...new Set(causes.map((span) => span.name))].map((name) => {
    const own = clipped(causes.filter((span) => span.name === name), wait);
    const ms = length(WIDE.has(name) ? subtract(own, narrow) : own);
    return { name, ms, share: ms / (wait.to - wait.from) };
  });
  shares.sort((a, b) => b.ms - a.ms || a.name.localeCompare(b.name));
  return { ...wait, shares: shares.filter((share) => share.ms > 0) };
}

/** Returns the span with the largest share of the wait; null if nothing explains it. */
export function culprit(turn: Pick<Turn, 'spans' | 'events'>): (Share & { wait: number }) | null {
  const wait = explain(turn);
  const first = wait?.shares[0];
  return wait && first ? { ...first, wait: wait.to - wait.from } : null;
}
