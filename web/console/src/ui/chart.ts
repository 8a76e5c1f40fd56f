// What a chart shows, as numbers and texts: lines over days or moments, a round end of the axis, and which days are named. Not
// for drawing: see Chart.svelte.

/** One value for each place of `x`; null is none. The colour is a variable of app.css. */
export interface Line { label: string; colour: string; values: (number | null)[] }

export interface Plot {
  /** Bars, one a day, with the number of the day as `x`; or points, with a time in milliseconds. */
  kind: 'days' | 'moments';
  x: number[];
  lines: Line[];
  /** Upper end of the axis, which begins at 0. */
  top: number;
  /** Name of the axis of days or moments. */
  name: string;
  textX: (at: number, isShort: boolean) => string;
  textY: (amount: number) => string;
}

/** Returns a round number of these units that no amount exceeds. */
export function topOf(most: number, unit = 1): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most / unit));
  const step = [1, 2, 5, 10].find((one) => one * power * unit >= most) ?? 10;
  return step * power * unit;
}

/** Returns which of so many days are named, where there is room for one of `every` days: always the last. */
export function namedDays(count: number, every: number): number[] {
  const all = Array.from({ length: count }, (_, n) => n);
  return all.filter((n) => (count - 1 - n) % every === 0);
}

/** Returns the ends of the axis, with room for the bars or points at them. */
export function reachOf(kind: Plot['kind'], from: number, to: number): [number, number] {
  const room = kind === 'days' ? 0.5 : Math.max(500, (to - from) * 0.03);
  return [from - room, to + room];
}
