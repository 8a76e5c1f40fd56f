// Options for uPlot: axes, lines or bars, and the legend with the value at the pointer. Not for the data.
import uPlot from 'uplot';
import { namedDays, type Plot, reachOf } from './chart';

const FONT = '11px system-ui, sans-serif';
/** Space next to a number of the axis, and per character, in pixels. */
const NUMBERS = { beside: 18, character: 6.5 };
/** Height of the x axis, and width of each of its labels, in pixels. */
const NAMES = { size: 26, days: 46, moments: 90 };
/** Dashes: lines must differ in more than colour. */
const DASHES = [[], [8, 4], [2, 4]];
const MARKERS = ['solid', 'dashed', 'dotted'] as const;

const or = <T>(value: T | null | undefined, text: (value: T) => string) => (value === null || value === undefined ? '–' : text(value));
const roomFor = (_plot: uPlot, texts: string[] | null) => NUMBERS.beside + NUMBERS.character * Math.max(0, ...(texts ?? []).map((text) => text.length));

export function optionsOf(plot: Plot, colour: (name: string) => string): Omit<uPlot.Options, 'width' | 'height'> {
  const { kind, x, lines, top, name, textX, textY } = plot;
  const isDays = kind === 'days';
  const axis = { stroke: colour('--soft'), font: FONT, ticks: { show: false }, grid: { stroke: colour('--line'), width: 1 } };
  const days: uPlot.Axis = {
    incrs: [1, 2, 3, 5, 7, 10, 14, 30],
    splits: (_plot, _axis, _from, _to, every) => namedDays(x.length, every),
  };
  return {
    ms: 1,
    scales: {
      x: { time: !isDays, range: (_plot, from, to) => reachOf(kind, from, to) },
      y: { range: () => [0, top] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: NAMES.size, space: NAMES[kind], values: (_plot, all) => all.map((at) => textX(at, true)), ...(isDays ? days : {}) },
      { ...axis, size: roomFor, splits: () => [0, top / 2, top], values: (_plot, all) => all.map(textY) },
    ],
    series: [
      { label: name, value: (_plot, at: number | null) => or(at, (one) => textX(one, false)) },
      ...lines.map(({ label, colour: own }, n): uPlot.Series => ({
        label, width: isDays ? 0 : 2, stroke: colour(own), spanGaps: true,
        value: (_plot, amount: number | null) => or(amount, textY),
        ...(isDays
          ? { fill: colour(own), points: { show: false }, ...(uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.8, 60], radius: 0.1 }) } : {}) }
          : { dash: DASHES[n % DASHES.length] ?? [], points: { show: true, size: 6, fill: colour(own) } }),
      })),
    ],
    cursor: { y: false, points: { show: !isDays }, drag: { x: false, y: false } },
    legend: { markers: { width: 2, dash: (_plot, n) => MARKERS[(n - 1) % MARKERS.length] ?? 'solid' } },
  };
}
