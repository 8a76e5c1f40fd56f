// Checks addresses, errors and their texts, formats, forms of tools, settings and WAV files.
import { describe, expect, it } from 'vitest';
import { enErrors } from '../i18n/en-errors';
import { zhErrors } from '../i18n/zh-errors';
import { ApiError, FAULTS, faultOf, keysNamed, refusalOf, REMEDIES, remedyOf, SERVER_FAULTS } from './errors';
import { ago, bytes, duration, metric } from './format';
import { rootOf } from './http';
import { argumentsOf, FieldError, fieldsOf } from './schema';
import { allReloaded, changesOf, typedOf } from './settings';
import { base64, bytesOf, lengthOf, wavOf } from './wav';

describe('addresses', () => {
  it('include the path under which a proxy serves the console', () => {
    expect(rootOf('http://h/console/')).toBe('');
    expect(rootOf('https://h/voice/at/home/console/?a=/b#/devices')).toBe('/voice/at/home');
    expect(rootOf('http://h/p/console/index.html')).toBe('/p');
  });
});

describe('errors', () => {
  it('are parsed from both forms of refusals', () => {
    expect(refusalOf(409, { error: { code: 'CONFLICT', message: 'm' } }, null)).toMatchObject({ status: 409, code: 'CONFLICT', message: 'm' });
    expect(refusalOf(422, { code: 422, msg: 'a', detail: 'b' }, '5')).toMatchObject({ code: 'HTTP_422', message: 'b', retryAfter: 5 });
    expect(refusalOf(500, null, 'x')).toMatchObject({ message: 'HTTP 500', retryAfter: null });
  });

  it('have a remedy', () => {
    expect(remedyOf(new ApiError(404, 'SESSION_NOT_FOUND', ''))).toBe('NOT_FOUND');
    expect(remedyOf(new ApiError(400, 'INVALID_REQUEST', ''))).toBe('BAD_REQUEST');
    expect(remedyOf(new ApiError(409, 'NOT_CONNECTED', ''))).toBe('NOT_CONNECTED');
    expect(remedyOf(new ApiError(429, 'HTTP_429', ''))).toBe('BUSY');
    expect(remedyOf(new Error('x'))).toBe('INTERNAL_ERROR');
    for (const code of REMEDIES) expect([enErrors[`remedy.${code}`], zhErrors[`remedy.${code}`]].every(Boolean), code).toBe(true);
  });

  it('have a text in both languages for every code of the server', () => {
    expect(new Set(SERVER_FAULTS).size).toBe(26);
    for (const code of FAULTS) {
      expect(enErrors[`fault.${code}`], code).toMatch(/^[A-Z][^\p{Script=Han}]+\.$/u);
      expect(zhErrors[`fault.${code}`], code).toMatch(/\p{Script=Han}.*。$/u);
    }
  });

  it('without a known code have the text of their status', () => {
    expect(faultOf(new ApiError(409, 'VERSION_CONFLICT', ''))).toBe('VERSION_CONFLICT');
    expect([404, 409, 422, 503, 418].map((status) => faultOf(new ApiError(status, `HTTP_${status}`, '')))).toEqual([
      'NOT_FOUND', 'CONFLICT', 'BAD_REQUEST', 'UNAVAILABLE', 'INTERNAL_ERROR',
    ]);
    expect(faultOf(new ApiError(0, 'OFFLINE', 'Failed to fetch'))).toBe('OFFLINE');
  });

  it('name the settings concerned', () => {
    expect(keysNamed('the request cannot be read: `llm.temperature` is 9: use 0 to 2, see `chat.max_tokens`')).toEqual(['llm.temperature', 'chat.max_tokens']);
  });
});

describe('format', () => {
  it('formats times and sizes', () => {
    expect([840.4, 1_250, 12_345, 125_000].map(duration)).toEqual(['840 ms', '1.25 s', '12.3 s', '2 min 5 s']);
    expect([9_999, 59_960, 119_600].map(duration)).toEqual(['10.0 s', '1 min 0 s', '2 min 0 s']);
    expect([12, 2_048, 3_670_016].map(bytes)).toEqual(['12 B', '2.0 KiB', '3.5 MiB']);
    expect(ago('2030-01-01T00:00:00Z', Date.parse('2030-01-01T02:30:00Z'), 'en')).toBe('2 hours ago');
    expect(ago(null, 0, 'en')).toBe('–');
  });

  it('sums a metric by its labels, without metrics whose names start with the same text', () => {
    const text = '# HELP x\nt_total{end="a",b="1"} 2\nt_total{end="b"} 3\nt_total_more 9\nplain 4.5\n';
    expect(metric(text, 't_total')).toBe(5);
    expect(metric(text, 't_total', 'end="a"')).toBe(2);
    expect(metric(text, 'plain')).toBe(4.5);
    expect(metric(text, 'none')).toBe(0);
  });
});

describe('forms of tools', () => {
  const fields = fieldsOf({
    type: 'object', required: ['count', 'city'],
    properties: {
      note: { type: 'string' }, count: { type: 'integer' }, city: { type: 'string', description: 'c' }, loud: { type: 'boolean' },
      kind: { enum: [1, 'two'] }, more: { type: 'array' }, maybe: { type: ['number', 'null'] },
    },
  });

  it('list required fields first, with a kind for each type', () => {
    expect(fields.map((field) => `${field.name}:${field.kind}`)).toEqual(['count:integer', 'city:text', 'note:text', 'loud:boolean', 'kind:choice', 'more:json', 'maybe:number']);
    expect(fieldsOf({})).toEqual([]);
  });

  it('produce arguments of the right type, without empty ones', () => {
    expect(argumentsOf(fields, { count: '3', city: '', kind: '1', more: '[1]', maybe: '2.5', loud: 'true' })).toEqual({ count: 3, city: '', kind: 1, more: [1], maybe: 2.5, loud: true });
  });

  it('reject missing and invalid values', () => {
    const reason = (typed: Record<string, string>) => {
      try {
        argumentsOf(fields, typed);
      } catch (error) {
        return error instanceof FieldError ? `${error.field} ${error.reason}` : 'other';
      }
      return 'none';
    };
    expect(reason({ city: 'x' })).toBe('count missing');
    expect(reason({ count: '1.5' })).toBe('count number');
    expect(reason({ count: '1', more: '{' })).toBe('more json');
  });
});

describe('settings', () => {
  const settings = { llm: { model: 'm', temperature: 0.7 }, log: { level: 'info' } };

  it('are sent only if changed, in the type of the old value', () => {
    const typed = typedOf(settings);
    expect(changesOf(settings, typed)).toEqual({});
    expect(changesOf(settings, { ...typed, 'llm.temperature': '0.5', 'log.level': 'debug' })).toEqual({ 'llm.temperature': 0.5, 'log.level': 'debug' });
    expect(changesOf(settings, { ...typed, 'llm.temperature': 'warm' })).toEqual({ 'llm.temperature': 'warm' });
    const tables = { tools: { policy: { 'files/*': 'ask' } } };
    expect(changesOf(tables, typedOf(tables))).toEqual({});
    expect(changesOf(tables, { 'tools.policy': '{"a/b":"never"}' })).toEqual({ 'tools.policy': { 'a/b': 'never' } });
    expect(changesOf(tables, { 'tools.policy': '{' })).toEqual({ 'tools.policy': '{' });
  });

  it('preserve unsaved input when another setting is saved', () => {
    const before = typedOf(settings);
    const sent = { 'log.level': 'debug' };
    // Another administrator has changed a setting without unsaved input.
    const now = { ...before, 'log.level': 'debug', 'llm.model': 'other' };
    const typed = { ...before, 'llm.temperature': '0.5', 'log.level': 'debug' };
    expect(allReloaded(typed, before, sent, now)).toEqual({ ...now, 'llm.temperature': '0.5' });
    expect(allReloaded({ ...typed, 'log.level': 'trace' }, before, sent, now)['log.level']).toBe('trace');
  });
});

describe('WAV', () => {
  it('has a header and 16-bit samples', () => {
    const file = wavOf(Float32Array.of(0, 1, -1), 16_000);
    expect(file.length).toBe(50);
    expect(new TextDecoder('latin1').decode(file.subarray(0, 12))).toBe('RIFF*\0\0\0WAVE');
    expect([...file.subarray(44)]).toEqual([0, 0, 255, 127, 1, 128]);
    expect(base64(new TextEncoder().encode('hi'))).toBe('aGk=');
    expect(bytesOf(base64(file))).toEqual(file);
  });

  it('has a length, also with other chunks first or with an unknown size', () => {
    const file = wavOf(new Float32Array(1_600), 16_000);
    expect(lengthOf(file)).toBe(100);
    const streamed = file.slice();
    new DataView(streamed.buffer).setUint32(40, 0xffff_ffff, true);
    expect(lengthOf(streamed)).toBe(100);
    const listed = Uint8Array.from([...file.subarray(0, 36), ...new TextEncoder().encode('LIST\x03\0\0\0abc\0'), ...file.subarray(36)]);
    expect(lengthOf(listed)).toBe(100);
    expect([lengthOf(new Uint8Array(0)), lengthOf(file.subarray(0, 40))]).toEqual([0, 0]);
  });
});
