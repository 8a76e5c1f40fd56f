// Data of a chart: lines over days or times, rounded axis ends, labelled days. Not for drawing: see Chart.svelte.

/** One value for each entry of `x`, null if there is none. The colour is a CSS variable of app.css. */
export interface Line { label: string; colour: string; values: (number | null)[] }

export interface Plot {
  /** Bars, one per day, with the index of the day as `x`; or points, with times in milliseconds. */
  kind: 'days' | 'moments';
  x: number[];
  lines: Line[];
  /** Upper end of the value axis, which starts at 0. */
  top: number;
  /** Name of the x axis. */
  name: string;
  textX: (at: number, isShort: boolean) => string;
  textY: (amount: number) => string;
}

/** Returns a round number of these units, at least `most`. */
export function topOf(most: number, unit = 1): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most / unit));
  const step = [1, 2, 5, 10].find((one) => one * power * unit >= most) ?? 10;
  return step * power * unit;
}

/** Returns the indices of the labelled days if one in `every` days has room for a label; always includes the last day. */
export function namedDays(count: number, every: number): number[] {
  const all = Array.from({ length: count }, (_, n) => n);
  return all.filter((n) => (count - 1 - n) % every === 0);
}

/** Returns the ends of the x axis, with room for the bars or points at the ends. */
export function reachOf(kind: Plot['kind'], from: number, to: number): [number, number] {
  const room = kind === 'days' ? 0.5 : Math.max(500, (to - from) * 0.03);
  return [from - room, to + room];
}
