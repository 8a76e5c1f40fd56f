// Response times of recent calls as series of a chart. Not for its texts.
import type { Service, ServiceCall } from '../lib/types';
import { SERVICES } from './estimate';

/** Time of each call in `x`, oldest first, and the response time of the called service, in milliseconds. */
export interface CallSeries { x: number[]; lines: { service: Service; values: (number | null)[]; median: number }[]; most: number }

/** Returns the answered calls; null if there are fewer than two. A call without a first result counts with its total time. */
export function seriesOf(calls: readonly ServiceCall[]): CallSeries | null {
  const answered = calls.flatMap(({ service, began, first_ms, total_ms, outcome }) => {
    const took = first_ms ?? total_ms;
    return outcome === 'answered' && took !== null ? [{ service, at: Date.parse(began), took }] : [];
  }).sort((a, b) => a.at - b.at);
  if (answered.length < 2) return null;
  const lines = SERVICES.map((service) => {
    const values = answered.map((one) => (one.service === service ? one.took : null));
    return { service, values, median: medianOf(values.filter((value) => value !== null)) };
  });
  return {
    x: answered.map(({ at }) => at), lines: lines.filter(({ values }) => values.some((value) => value !== null)),
    most: Math.max(...answered.map(({ took }) => took)),
  };
}

function medianOf(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return ((sorted[Math.ceil(half) - 1] ?? 0) + (sorted[Math.floor(half)] ?? 0)) / 2;
}

/** Formats a time for an axis of this span: with seconds for less than ten minutes, with the day for more than a day. */
export function momentOnAxis(at: number, span: number, tag: string): string {
  const form: Intl.DateTimeFormatOptions = span < 600_000 ? { timeStyle: 'medium' } : span < 86_400_000 ? { timeStyle: 'short' }
    : { month: 'numeric', day: 'numeric', hour: 'numeric', minute: '2-digit' };
  return new Intl.DateTimeFormat(tag, form).format(at);
}
