// Checks the estimate, the keys to check after a failure, the stored outcome, the first steps, and recent calls.
import { describe, expect, it } from 'vitest';
import type { Service, ServiceCall, ServiceTest } from '../lib/types';
import { factsOf, failedOf, lineOf } from './calls';
import { keysFor, outcomeOf, readOutcome, seconds } from './estimate';
import { momentOnAxis, seriesOf } from './series';
import { areShown, stepsOf } from './steps';

const tested = (service: Service, first_ms: number | null, total_ms: number, ok = true): ServiceTest =>
  ({ service, ok, first_ms, total_ms, text: null, audio: null, error: ok ? null : 'down' });

describe('estimate', () => {
  const tts = tested('tts', 150, 900);
  const asr = tested('asr', 20, 400);
  const llm = tested('llm', 700, 2_000);

  it('sums the recognition, the first word and the first sound', () => {
    expect(outcomeOf({ tts, asr, llm })).toEqual({ ms: 1_250, failed: [] });
    expect(outcomeOf({ tts, asr: tested('asr', null, 400), llm: tested('llm', null, 2_000) })).toEqual({ ms: 2_550, failed: [] });
  });

  it('names the failed services, in test order', () => {
    expect(outcomeOf({ tts, asr: tested('asr', null, 5, false), llm })).toEqual({ ms: null, failed: ['asr'] });
    expect(outcomeOf({ llm: tested('llm', null, 5, false), tts })).toEqual({ ms: null, failed: ['asr', 'llm'] });
  });

  it('is in seconds, at least 0.1', () => {
    expect([1_250, 480, 3, 12_040].map(seconds)).toEqual(['1.3', '0.5', '0.1', '12.0']);
  });

  it('is restored from the tab, unless the stored text is invalid', () => {
    const outcome = { ms: null, failed: ['llm'] };
    expect(readOutcome(JSON.stringify(outcome))).toEqual(outcome);
    expect(readOutcome('{"ms":5,"failed":["other","tts"]}')).toEqual({ ms: 5, failed: ['tts'] });
    for (const text of [null, '', '{', '5', '{"ms":"5","failed":[]}', '{"ms":5}']) expect(readOutcome(text)).toBeNull();
  });
});

describe('a failure', () => {
  it('names the keys for its kind', () => {
    expect(keysFor('llm', 'openai-llm: not authorised')).toEqual(['llm.api_key']);
    expect(keysFor('llm', 'openai-llm: not served: status 404')).toEqual(['llm.model', 'llm.base_url', 'llm.api_key']);
    expect(keysFor('tts', 'listenai-tts: unavailable: connection refused')).toEqual(['tts.url']);
    expect(keysFor('asr', 'no answer within 30 s')).toEqual(['asr.url']);
    expect(keysFor('asr', 'something else')).toEqual(['asr.url', 'asr.model', 'asr.api_key']);
  });

  it('of the synthesiser in a test of the recogniser names the keys of the synthesiser', () => {
    expect(keysFor('asr', 'the synthesiser has nothing to recognise: listenai-tts: unavailable')).toEqual(['tts.url']);
  });
});

describe('first steps', () => {
  const fresh = { dismissed: false, tested: false, testedHere: false, devices: 0 };

  it('are shown until a device was seen, a test was run earlier, or they were dismissed', () => {
    expect(areShown(fresh)).toBe(true);
    expect(areShown({ ...fresh, tested: true, testedHere: true })).toBe(true);
    expect(areShown({ ...fresh, tested: true })).toBe(false);
    expect(areShown({ ...fresh, devices: 1 })).toBe(false);
    expect(areShown({ ...fresh, devices: null })).toBe(false);
    expect(areShown({ ...fresh, dismissed: true })).toBe(false);
  });

  it('are done if the page knows it', () => {
    const done = (...of: Parameters<typeof stepsOf>) => stepsOf(...of).map(({ step, done }) => `${step} ${done}`);
    expect(done(null, true, true)).toEqual(['test false', 'talk null', 'board null', 'password false']);
    expect(done({ ms: null, failed: ['llm'] }, true, false)).toEqual(['test false', 'talk null', 'board null', 'password true']);
    expect(done({ ms: 900, failed: [] }, false, false)).toEqual(['test true', 'talk null', 'board null']);
  });
});

describe('calls', () => {
  const call = (of: Partial<ServiceCall> = {}): ServiceCall => ({
    number: 1, service: 'llm', began: '2030-01-01T10:00:00.000Z', first_ms: 230, total_ms: 800, outcome: 'answered', error: null,
    sent: { text: 'What time\nis it?' }, got: { text: 'It is ten.', calls: [] }, ...of,
  });

  it('have a summary line: the error, or the request and the response', () => {
    expect(lineOf(call())).toBe('What time is it? → It is ten.');
    expect(lineOf(call({ got: { text: '', calls: ['get_time', 'take_photo'] } }))).toBe('What time is it? → get_time, take_photo');
    expect(lineOf(call({ outcome: 'failed', error: 'no answer in time' }))).toBe('no answer in time');
    expect(lineOf(call({ service: 'asr', sent: { audio_ms: 5 }, got: {} }))).toBe('');
    expect(lineOf(call({ sent: {}, got: {} }))).toBe('');
  });

  it('that failed are collected from all services, newest first', () => {
    const failed = (number: number, began: string) => call({ number, began, outcome: 'failed' });
    const first = { words: true, calls: [failed(4, '2030-01-01T10:00:04Z'), call({ number: 3 }), failed(2, '2030-01-01T10:00:02Z')] };
    const second = { words: false, calls: [failed(5, '2030-01-01T10:00:03.5Z'), failed(1, '2030-01-01T10:00:02Z'), call({ outcome: 'cancelled' })] };
    const { words, calls } = failedOf([first, second]);
    expect([words, ...calls.map((one) => one.number)]).toEqual([false, 4, 5, 2, 1]);
    expect(failedOf([])).toEqual({ words: true, calls: [] });
  });

  it('have a chart of response times by service, oldest first', () => {
    const at = (seconds: number) => new Date(Date.UTC(2030, 0, 1, 10, 0, seconds)).toISOString();
    const chart = seriesOf([
      call({ began: at(5), first_ms: 100 }), call({ service: 'tts', began: at(4), first_ms: null, total_ms: 900 }), call({ began: at(3), first_ms: 300 }),
      call({ began: at(2), outcome: 'failed' }), call({ began: at(1), outcome: 'running', first_ms: null, total_ms: null }), call({ began: at(0), first_ms: 140 }),
    ]);
    expect(chart?.x).toEqual([0, 3, 4, 5].map((seconds) => Date.parse(at(seconds))));
    expect(chart?.lines).toEqual([
      { service: 'tts', values: [null, null, 900, null], median: 900 },
      { service: 'llm', values: [140, 300, null, 100], median: 140 },
    ]);
    expect(chart?.most).toBe(900);
  });

  it('have no chart if fewer than two were answered', () => {
    expect([seriesOf([]), seriesOf([call()]), seriesOf([call(), call({ outcome: 'cancelled' })])]).toEqual([null, null, null]);
    expect(seriesOf([call({ first_ms: 100 }), call({ first_ms: 201 })])?.lines[0]?.median).toBe(150.5);
  });

  it('have times on the axis with seconds, minutes or days', () => {
    const at = new Date(2030, 0, 31, 10, 5, 7).getTime();
    expect([60_000, 3_600_000].map((span) => momentOnAxis(at, span, 'en-GB'))).toEqual(['10:05:07', '10:05']);
    expect(momentOnAxis(at, 200_000_000, 'en-GB')).toMatch(/31.*10:05/);
  });

  it('have known properties with units, empty if the service chooses the value', () => {
    const content = { text: 'x', model: '', messages: 5, characters: 2_310, temperature: 0, audio_ms: 1_840, calls: ['a', 'b'] };
    expect(factsOf(content, 'en').map(({ field, text }) => `${field}=${text}`)).toEqual([
      'model=', 'messages=5', 'characters=2,310', 'temperature=0', 'audio_ms=1.84 s', 'calls=a, b',
    ]);
    expect(factsOf({ text: 'x', calls: [] }, 'en')).toEqual([]);
    expect(factsOf(null, 'en')).toEqual([]);
  });
});
