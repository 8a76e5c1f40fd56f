// Usage as a series of a chart: one measure by day. Not for its texts.
import type { Measure, Usage } from '../lib/types';
import { amountOf, filled, roundTop } from './amounts';

/** Amounts by day with their indices in `x`, the days, the top of the axis, and the sum. */
export interface DaySeries { days: string[]; x: number[]; amounts: number[]; top: number; sum: number }

export function seriesOf(usage: Pick<Usage, 'from' | 'today' | 'days'>, measure: Measure): DaySeries {
  const days = filled(usage);
  const amounts = days.map((one) => amountOf(one, measure));
  return {
    days: days.map(({ day }) => day), x: days.map((_, n) => n), amounts, top: roundTop(amounts, measure),
    sum: amounts.reduce((sum, one) => sum + one, 0),
  };
}
