// The layout of a turn's timeline, and the visible rows of a long list. Not for drawing.
import type { Span, Turn } from '../lib/types';
import { type Interval, waitOf } from './culprit';

/** Order of the lanes from top to bottom; lanes with other names follow. */
export const LANES = [
  'speech', 'silence', 'recognition', 'speculation', 'admission', 'prompt', 'model_first_word', 'model', 'rule', 'tool',
  'voice_first_sound', 'voice', 'prebuffer', 'start_guard', 'playback',
] as const;

export interface Bar { span: Span; from: number; to: number; open: boolean }
export interface Lane { name: string; bars: Bar[] }
export interface Timeline {
  lanes: Lane[];
  /** Times of the left and the right edge, in milliseconds since the start of the turn. */
  start: number;
  end: number;
  wait: Interval | null;
}

/** Minimum duration of a timeline, in milliseconds. */
const SHORTEST = 1_000;

/**
 * Lays out a turn. Open spans end at `now`, in milliseconds since the start of the turn. The edges include `also`, such as
 * the audio of the turn.
 */
export function timeline(turn: Turn, now: number, also: Interval | null = null): Timeline {
  const bars = turn.spans.map((span) => {
    const open = span.end_ms === null;
    const until = turn.state === 'ended' ? span.start_ms : Math.max(now, span.start_ms);
    return { span, from: span.start_ms, to: span.end_ms ?? until, open };
  });
  const marks = turn.events.map((event) => event.at_ms);
  const start = Math.min(0, also?.from ?? 0, ...bars.map((bar) => bar.from));
  const end = Math.max(start + SHORTEST, also?.to ?? 0, ...bars.map((bar) => bar.to), ...marks);
  const names = laneNames(turn);
  const lanes = names.map((name) => ({ name, bars: bars.filter((bar) => bar.span.name === name) }));
  return { lanes, start, end, wait: waitOf(turn) };
}

/** Returns the names of a turn's lanes, top to bottom. */
export function laneNames(turn: Pick<Turn, 'spans'>): string[] {
  const there = new Set(turn.spans.map((span) => span.name));
  const known = LANES.filter((name) => there.delete(name));
  return [...known, ...[...there].sort()];
}

/** Returns the position of a time, from 0 (left edge) to 1 (right edge). */
export function place(line: Timeline, ms: number): number {
  return Math.min(1, Math.max(0, (ms - line.start) / (line.end - line.start)));
}

/** Returns at most `most` round times for the axis. */
export function ticks(line: Timeline, most: number): number[] {
  const span = line.end - line.start;
  const steps = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 300_000, 600_000];
  const step = steps.find((size) => span / size <= most) ?? 3_600_000;
  const first = Math.ceil(line.start / step) * step;
  return Array.from({ length: Math.floor((line.end - first) / step) + 1 }, (_, n) => first + n * step);
}

/** Heights in a row, in pixels: above the lanes, of each lane, and below the lanes. */
export const HEAD = 94;
export const LANE = 16;
export const FOOT = 54;

export function rowHeight(turn: Pick<Turn, 'spans'>): number {
  return HEAD + FOOT + LANE * Math.max(1, new Set(turn.spans.map((span) => span.name)).size);
}

/** Returns the top of each row and, last, the total height. */
export function tops(heights: readonly number[]): number[] {
  const all = [0];
  for (const height of heights) all.push((all.at(-1) ?? 0) + height);
  return all;
}

/** Returns the first visible row and the row after the last, extended by one on either side. */
export function inView(all: readonly number[], top: number, height: number): { first: number; end: number } {
  const count = all.length - 1;
  const first = Math.max(0, below(all, top) - 1);
  const end = Math.min(count, below(all, top + height) + 2);
  return { first: Math.min(first, count), end };
}

/** Returns the row at this height, by binary search. */
function below(all: readonly number[], at: number): number {
  let low = 0;
  let high = all.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((all[middle] ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}
