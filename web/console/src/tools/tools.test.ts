// Checks the arguments and the remaining seconds of pending confirmations, permissions, and addresses of tool clients.
import { describe, expect, it } from 'vitest';
import { ApiError } from '../lib/errors';
import { patternsOf } from './policies.svelte';
import { endpointOf } from './tokens';
import { dropped, indented, secondsLeft } from './waiting';

describe('arguments', () => {
  it('have one value per line', () => {
    expect(indented('{"question": "what, is \\"this\\"","n":[1,{"a":null}]}')).toBe(JSON.stringify({ question: 'what, is "this"', n: [1, { a: null }] }, null, 2));
    expect(indented('{"city":"\\u5317\\u4eac"}')).toBe('{\n  "city": "北京"\n}');
    expect(indented('{}')).toBe('{}');
  });

  it('are unchanged if they are not JSON or formatting would alter them', () => {
    for (const text of ['', '{"open', '{"id":12345678901234567890}', '{"x":1e400}', '{"x":true,"x":false}']) expect(indented(text)).toBe(text);
  });
});

describe('the remaining seconds', () => {
  it('decrease from the number of the server to 0', () => {
    const left = (now: number) => secondsLeft({ seconds_left: 42 }, 1_000, now);
    expect([left(500), left(1_000), left(1_900), left(3_000), left(42_500), left(90_000)]).toEqual([42, 42, 42, 40, 1, 0]);
  });
});

describe('a request to drop a call', () => {
  it('says whether the call was pending, and throws other errors', async () => {
    expect(await dropped(Promise.resolve({ dropped: 1 }))).toBe('waiting.dropped');
    expect(await dropped(Promise.reject(new ApiError(404, 'NOT_FOUND', 'no call of this client is pending')))).toBe('waiting.gone');
    for (const error of [new ApiError(403, 'FORBIDDEN', ''), new ApiError(0, 'OFFLINE', ''), new TypeError('404')]) {
      await expect(dropped(Promise.reject(error))).rejects.toBe(error);
    }
  });
});

describe('policies', () => {
  it('are sorted by pattern', () => {
    const policy = { 'files/*': 'ask', '*': 'allow', 'files/delete': 'never' };
    const settings = { settings: { tools: { policy } }, sources: {} };
    expect(patternsOf(settings)).toEqual([['*', 'allow'], ['files/*', 'ask'], ['files/delete', 'never']]);
    expect([patternsOf(null), patternsOf({ settings: {}, sources: {} })]).toEqual([[], []]);
  });
});

describe('the address of a tool client', () => {
  it('has the scheme of the page', () => {
    expect(endpointOf({ protocol: 'http:', host: 'home:9400' }, 'a.b.c')).toBe('ws://home:9400/mcp_endpoint/mcp/?token=a.b.c');
    expect(endpointOf({ protocol: 'https:', host: 'x' }, 't')).toBe('wss://x/mcp_endpoint/mcp/?token=t');
  });
});
