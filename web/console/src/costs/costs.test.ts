// Checks days without gaps and their chart, shares, number formats, reached limits, and values of settings.
import { describe, expect, it } from 'vitest';
import type { Sums } from '../lib/types';
import { amountOf, amountText, dayText, filled, money, percent, reachedBy, roundTop, shareOf, spoken } from './amounts';
import { FIELDS, faultOf } from './fields';
import { seriesOf } from './series';

const sums = (of: Partial<Sums> = {}): Sums => ({
  turns: 0, refused: 0, prompt_tokens: 0, completion_tokens: 0, heard_seconds: 0, said_seconds: 0, said_chars: 0, cost: 0, ...of,
});

describe('amounts', () => {
  it('are cost, all tokens, or all seconds', () => {
    const used = sums({ prompt_tokens: 1_000, completion_tokens: 200, heard_seconds: 31.5, said_seconds: 60.2, cost: 0.0123 });
    expect([amountOf(used, 'cost'), amountOf(used, 'tokens'), amountOf(used, 'seconds')]).toEqual([0.0123, 1_200, 91.7]);
  });

  it('are shares of a whole, also of zero', () => {
    expect([shareOf(1, 4), shareOf(0, 4), shareOf(5, 4), shareOf(0, 0)]).toEqual([0.25, 0, 1, 0]);
    expect([percent(0.12345, 'en'), percent(1, 'en')]).toEqual(['12.3%', '100%']);
  });

  it('are at most the top of the axis, which is round in the displayed unit', () => {
    expect(roundTop([3, 120_001], 'tokens')).toBe(200_000);
    expect(roundTop([0.0012], 'cost')).toBeCloseTo(0.002, 10);
    expect([roundTop([12], 'seconds'), roundTop([61], 'seconds'), roundTop([700], 'seconds'), roundTop([7_300], 'seconds')]).toEqual([20, 120, 1_200, 18_000]);
    expect([roundTop([], 'cost'), roundTop([0, 0], 'tokens'), roundTop([100], 'tokens'), roundTop([5], 'cost')]).toEqual([1, 1, 100, 5]);
    for (const amount of [0.3, 0.7, 1e-9, 999, 1e12]) expect(roundTop([amount], 'cost')).toBeGreaterThanOrEqual(amount);
  });
});

describe('days', () => {
  it('without usage are zero, across months and years', () => {
    const used = { day: '2030-01-01', ...sums({ turns: 2, cost: 1 }) };
    const days = filled({ from: '2029-12-30', today: '2030-01-02', days: [used] });
    expect(days.map((one) => `${one.day} ${one.turns} ${one.cost}`)).toEqual(['2029-12-30 0 0', '2029-12-31 0 0', '2030-01-01 2 1', '2030-01-02 0 0']);
  });

  it('are as many as requested, also with daylight saving time and in leap years', () => {
    expect(filled({ from: '2028-02-01', today: '2028-04-30', days: [] })).toHaveLength(90);
    expect(filled({ from: '2030-05-05', today: '2030-05-05', days: [] })).toHaveLength(1);
    expect(new Set(filled({ from: '2029-10-01', today: '2029-11-29', days: [] }).map((one) => one.day)).size).toBe(60);
  });

  it('are formatted regardless of the time zone', () => {
    expect([dayText('2030-01-31', 'en'), dayText('2030-01-31', 'en', true)]).toEqual(['Jan 31, 2030', '1/31']);
  });
});

describe('the chart', () => {
  const used = [{ day: '2030-01-01', ...sums({ prompt_tokens: 900, completion_tokens: 100, heard_seconds: 61, cost: 0.25 }) }];

  it('has one amount per day, also for days without usage, under a round top', () => {
    const chart = seriesOf({ from: '2029-12-31', today: '2030-01-02', days: used }, 'tokens');
    expect(chart).toEqual({ days: ['2029-12-31', '2030-01-01', '2030-01-02'], x: [0, 1, 2], amounts: [0, 1_000, 0], top: 1_000, sum: 1_000 });
  });

  it('shows the chosen measure', () => {
    const of = (measure: 'cost' | 'seconds') => seriesOf({ from: '2030-01-01', today: '2030-01-01', days: used }, measure);
    expect([of('cost').sum, of('cost').top, of('seconds').amounts, of('seconds').top]).toEqual([0.25, 0.5, [61], 120]);
  });
});

describe('numbers', () => {
  it('of money have at most four significant decimals, and the currency if known', () => {
    expect([0, 0.012_345_6, 0.5, 12.345_678, 1_234.5].map((amount) => money(amount, '', 'en'))).toEqual(['0', '0.01235', '0.5', '12.3457', '1,234.5']);
    expect(money(0.1 + 0.2, 'EUR', 'en')).toBe('0.3\u00a0EUR');
    expect(money(0.000_001_234_5, 'CNY', 'zh-CN')).toMatch(/^0\.00000123[45]\u00a0CNY$/);
  });

  it('of speech have the two largest units', () => {
    expect([0, 31.54, 59.97, 60, 125.4, 3_599.6, 3_600, 11_525].map(spoken)).toEqual(['0 s', '31.5 s', '1 min', '1 min', '2 min 5 s', '1 h', '1 h', '3 h 12 min']);
  });

  it('have the unit of their measure', () => {
    expect([amountText(1_200, 'tokens', 'EUR', 'en'), amountText(90, 'seconds', 'EUR', 'en'), amountText(1.5, 'cost', 'EUR', 'en')]).toEqual(['1,200', '1 min 30 s', '1.5\u00a0EUR']);
  });
});

describe('reached limits', () => {
  it('have the name of the device or role, or its id', () => {
    const named = reachedBy({
      devices: [{ client: 'aa:bb', name: 'Kitchen', ...sums() }, { client: 'cc:dd', name: '', ...sums() }],
      roles: [{ role_id: 'r1', name: 'Kids', ...sums() }, { role_id: '', name: '', ...sums() }],
      reached: [
        { of: 'device', id: 'aa:bb', limit: 'tokens' }, { of: 'device', id: 'cc:dd', limit: 'cost' }, { of: 'device', id: 'ee:ff', limit: 'cost' },
        { of: 'role', id: 'r1', limit: 'seconds' }, { of: 'role', id: 'r2', limit: 'tokens' }, { of: 'total', id: '', limit: 'cost' },
      ],
    });
    expect(named.map((one) => `${one.of} ${one.name} ${one.limit}`)).toEqual([
      'device Kitchen tokens', 'device cc:dd cost', 'device ee:ff cost', 'role Kids seconds', 'role r2 tokens', 'total  cost',
    ]);
  });
});

describe('usage settings', () => {
  it('are numbers of 0 or more, whole for tokens, seconds and days', () => {
    for (const text of ['0', '200000', ' 5 ']) expect(faultOf('total_tokens', text)).toBeNull();
    for (const text of ['', '-1', '1.5', '1e3', 'many', '99999999999999999999']) expect(faultOf('device_seconds', text)).toBe('whole');
    for (const text of ['0', '1.5', '.5', '2.', '1e-7']) expect(faultOf('total_cost', text)).toBeNull();
    for (const text of ['', '-1', '1,5', '0x10', '1e999', 'cheap']) expect(faultOf('asr_price_per_hour', text)).toBe('amount');
  });

  it('are any text for the currency, and valid until loaded', () => {
    expect([faultOf('currency', ''), faultOf('currency', '€'), faultOf('retention_days', undefined)]).toEqual([null, null, null]);
    expect(new Set(FIELDS).size).toBe(10);
  });
});
