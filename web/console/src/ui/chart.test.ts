// Checks the ends of axes, and the labelled days of a chart.
import { describe, expect, it } from 'vitest';
import { namedDays, reachOf, topOf } from './chart';

describe('a chart', () => {
  it('ends at a round number, in its unit', () => {
    expect([0, 0.3, 1, 7, 812, 120_001].map((most) => topOf(most))).toEqual([1, 0.5, 1, 10, 1_000, 200_000]);
    expect([topOf(61, 60), topOf(7_300, 3_600)]).toEqual([120, 18_000]);
  });

  it('labels as many days as fit, and always the last', () => {
    expect(namedDays(7, 1)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(namedDays(7, 3)).toEqual([0, 3, 6]);
    expect(namedDays(8, 3)).toEqual([1, 4, 7]);
    expect(namedDays(0, 3)).toEqual([]);
  });

  it('leaves room at its ends, also for a single point', () => {
    expect(reachOf('days', 0, 6)).toEqual([-0.5, 6.5]);
    expect(reachOf('moments', 0, 100_000)).toEqual([-3_000, 103_000]);
    expect(reachOf('moments', 5_000, 5_000)).toEqual([4_500, 5_500]);
  });
});
