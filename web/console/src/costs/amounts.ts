// Usage as numbers: amounts of a measure, days without gaps, shares, reached limits with their names, and number formats.
// Not for texts: see words.ts.
import { number } from '../lib/format';
import type { Measure, ReachedLimit, Sums, Usage, UsageDay } from '../lib/types';
import { topOf } from '../ui/chart';

export const MEASURES: readonly Measure[] = ['cost', 'tokens', 'seconds'];
const DAY_MS = 86_400_000;
const NOTHING: Sums = {
  turns: 0, refused: 0, prompt_tokens: 0, completion_tokens: 0, heard_seconds: 0, said_seconds: 0, said_chars: 0, cost: 0,
};

export function amountOf(sums: Sums, measure: Measure): number {
  if (measure === 'tokens') return sums.prompt_tokens + sums.completion_tokens;
  return measure === 'seconds' ? sums.heard_seconds + sums.said_seconds : sums.cost;
}

/** Returns every day from the first to the last, such as `2030-01-31`; days without usage are zero. */
export function filled({ from, today, days }: Pick<Usage, 'from' | 'today' | 'days'>): UsageDay[] {
  const known = new Map(days.map((one) => [one.day, one]));
  const all: UsageDay[] = [];
  for (let at = Date.parse(from); at <= Date.parse(today); at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    all.push(known.get(day) ?? { day, ...NOTHING });
  }
  return all;
}

/** Returns the share of a part in the whole, from 0 to 1. */
export function shareOf(part: number, whole: number): number {
  return whole > 0 ? Math.min(1, part / whole) : 0;
}

/** Returns the upper end of an axis: a round number, at least the largest amount. */
export function roundTop(amounts: readonly number[], measure: Measure): number {
  const most = Math.max(0, ...amounts);
  const unit = measure !== 'seconds' || most < 60 ? 1 : most < 3_600 ? 60 : 3_600;
  return topOf(most, unit);
}

export interface NamedLimit extends ReachedLimit { name: string }

/** Returns the reached limits with the name of the device or role, or its id if it has no name. */
export function reachedBy({ reached, devices, roles }: Pick<Usage, 'reached' | 'devices' | 'roles'>): NamedLimit[] {
  const names = {
    device: new Map(devices.map((one) => [one.client, one.name])),
    role: new Map(roles.map((one) => [one.role_id, one.name])),
    total: new Map<string, string>(),
  };
  return reached.map((one) => ({ ...one, name: names[one.of].get(one.id) || one.id }));
}

/** Formats an amount of money with the currency, if known: at most four decimals, or four significant digits below 1. */
export function money(amount: number, currency: string, tag: string): string {
  const digits = Math.abs(amount) < 1 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 4 };
  const text = new Intl.NumberFormat(tag, digits).format(amount);
  return currency ? `${text}\u00a0${currency}` : text;
}

/** Formats seconds in the two largest units: `31.5 s`, `12 min 5 s`, `3 h 12 min`. */
export function spoken(seconds: number): string {
  const short = Number(seconds.toFixed(1));
  if (short < 60) return `${short} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return two(whole, 'min', 's');
  return two(Math.round(whole / 60), 'h', 'min');
}

function two(count: number, large: string, little: string): string {
  const [high, low] = [Math.floor(count / 60), count % 60];
  return low > 0 ? `${high} ${large} ${low} ${little}` : `${high} ${large}`;
}

export function amountText(amount: number, measure: Measure, currency: string, tag: string): string {
  if (measure === 'tokens') return number(amount, tag);
  return measure === 'seconds' ? spoken(amount) : money(amount, currency, tag);
}

export function percent(share: number, tag: string): string {
  return new Intl.NumberFormat(tag, { style: 'percent', maximumFractionDigits: 1 }).format(share);
}

/** Formats a day such as `2030-01-31`, regardless of the browser's time zone. */
export function dayText(day: string, tag: string, isShort = false): string {
  const form: Intl.DateTimeFormatOptions = isShort ? { month: 'numeric', day: 'numeric' } : { dateStyle: 'medium' };
  return new Intl.DateTimeFormat(tag, { ...form, timeZone: 'UTC' }).format(new Date(day));
}
