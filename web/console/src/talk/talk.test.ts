// Checks the protocol of the page as a device: framing, messages, tools, Ogg files and sample rates.
import { describe, expect, it } from 'vitest';
import { pack, unpack } from './framing';
import { answer, type DeviceTool, whole } from './mcp';
import { crc, oggOf } from './ogg';
import { loudness, Resampler } from './resample';
import { audioOf, emotionOf, hello, newDeviceId, newUuid, readMessage, socketUrl } from './wire';

const bytes = (...values: number[]) => Uint8Array.from(values);

describe('framing', () => {
  it('writes the headers of all versions, big-endian', () => {
    expect([...pack(1, bytes(7, 8))]).toEqual([7, 8]);
    expect([...pack(2, bytes(7, 8))]).toEqual([0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 7, 8]);
    expect([...pack(3, bytes(7, 8))]).toEqual([0, 0, 0, 2, 7, 8]);
  });

  it('parses its own frames, and ignores bytes after the payload', () => {
    for (const version of [1, 2, 3] as const) expect([...(unpack(version, pack(version, bytes(1, 2, 3))) ?? [])]).toEqual([1, 2, 3]);
    expect([...(unpack(3, bytes(0, 0, 0, 1, 5, 6)) ?? [])]).toEqual([5]);
    expect([...(unpack(2, pack(2, bytes())) ?? [9])]).toEqual([]);
  });

  it('rejects invalid headers', () => {
    expect(unpack(3, bytes(0, 0, 0))).toBeNull();
    expect(unpack(3, bytes(0, 0, 0, 9, 1))).toBeNull();
    expect(unpack(3, bytes(1, 0, 0, 1, 1))).toBeNull();
    expect(unpack(2, pack(3, bytes(1, 2)))).toBeNull();
  });

  it('parses a view of a larger buffer', () => {
    const all = bytes(9, 9, 0, 0, 0, 1, 5);
    expect([...(unpack(3, all.subarray(2)) ?? [])]).toEqual([5]);
  });
});

describe('messages', () => {
  it('are objects with a type', () => {
    expect(readMessage('{"type":"stt","text":"x"}')).toMatchObject({ type: 'stt' });
    for (const text of ['', 'x', '[]', 'null', '{"a":1}', '{"type":1}']) expect(readMessage(text), text).toBeNull();
  });

  it('have the defaults of firmware', () => {
    expect(audioOf({ type: 'hello' })).toEqual({ sample_rate: 24_000, frame_duration: 60 });
    expect(audioOf({ type: 'hello', audio_params: { sample_rate: 16_000, frame_duration: 20 } })).toEqual({ sample_rate: 16_000, frame_duration: 20 });
    expect(emotionOf('happy')).toBe('happy');
    expect(emotionOf('toString')).toBe('neutral');
    expect(emotionOf(5)).toBe('neutral');
    expect(hello(3)).toMatchObject({ version: 3, transport: 'websocket', audio_params: { sample_rate: 16_000, frame_duration: 60 } });
  });

  it('carry ids and token in the address', () => {
    const ids = { deviceId: '02:aa', clientId: 'u', token: 't.1', version: 2 };
    const url = new URL(socketUrl({ protocol: 'https:', host: 'voice.example:8443' }, ids));
    expect([url.protocol, url.host, url.pathname]).toEqual(['wss:', 'voice.example:8443', '/xiaozhi/v1/']);
    expect(Object.fromEntries(url.searchParams)).toEqual({ 'device-id': '02:aa', 'client-id': 'u', 'protocol-version': '2', authorization: 'Bearer t.1' });
    expect(socketUrl({ protocol: 'http:', host: 'h' }, { ...ids, token: '' })).not.toContain('authorization');
  });

  it('have ids in the right format', () => {
    expect(newDeviceId(bytes(1, 2, 3, 4, 255))).toBe('02:01:02:03:04:ff');
    expect(newUuid(new Uint8Array(16).fill(255))).toBe('ffffffff-ffff-4fff-bfff-ffffffffffff');
  });
});

describe('tools of the page', () => {
  let lit = false;
  const tools: DeviceTool[] = [
    { name: 'self.lamp.turn_on', description: 'on', inputSchema: { type: 'object', properties: {} }, run: () => (lit = true) },
    {
      name: 'self.set', description: 'set', inputSchema: { type: 'object', properties: { volume: { type: 'integer' } }, required: ['volume'] },
      run: (args) => ({ volume: whole(args, 'volume', 0, 100) }),
    },
  ];
  const ask = (method: string, params?: object) => answer({ jsonrpc: '2.0', id: 4, method, params }, tools) as Record<string, never>;

  it('are listed and called', () => {
    expect(ask('initialize')).toMatchObject({ id: 4, result: { serverInfo: { name: 'hearken-console' } } });
    expect(ask('tools/list')).toMatchObject({ result: { tools: [{ name: 'self.lamp.turn_on' }, { name: 'self.set' }] } });
    expect(ask('tools/call', { name: 'self.lamp.turn_on' })).toMatchObject({ result: { content: [{ type: 'text', text: 'true' }], isError: false } });
    expect(lit).toBe(true);
    expect(ask('tools/call', { name: 'self.set', arguments: { volume: 30 } })).toMatchObject({ result: { content: [{ text: '{"volume":30}' }] } });
  });

  it('reject invalid calls', () => {
    expect(ask('tools/call', { name: 'x' })).toMatchObject({ error: { message: 'Unknown tool: x' } });
    expect(ask('tools/call', { name: 'self.set' })).toMatchObject({ error: { message: 'Missing argument: volume' } });
    expect(ask('tools/call', { name: 'self.set', arguments: { volume: 200 } })).toMatchObject({ error: { message: 'volume must be 0 to 100' } });
    expect(ask('resources/list')).toMatchObject({ error: { code: -32601 } });
    expect(answer({ jsonrpc: '2.0', method: 'notifications/initialized' }, tools)).toBeNull();
    expect(answer(undefined, tools)).toBeNull();
  });
});

describe('Ogg', () => {
  it('has the checksum of the standard', () => {
    expect(crc(new TextEncoder().encode('123456789'))).toBe(0x89a1897f);
  });

  it('has a header, tags and one page per packet', () => {
    const file = oggOf([bytes(1, 2), new Uint8Array(300).fill(3)], 24_000, 60);
    const text = new TextDecoder('latin1').decode(file);
    expect(text.match(/OggS/g)?.length).toBe(4);
    expect(text.indexOf('OpusHead')).toBe(28);
    const last = file.subarray(text.lastIndexOf('OggS'));
    expect(last[5]).toBe(4);
    expect(new DataView(last.buffer, last.byteOffset).getUint32(6, true)).toBe(2 * 2_880);
    expect([...last.subarray(26, 29)]).toEqual([2, 255, 45]);
  });
});

describe('resampling', () => {
  const tone = (hz: number, rate: number, seconds: number) =>
    Float32Array.from({ length: Math.round(rate * seconds) }, (_, n) => Math.sin((2 * Math.PI * hz * n) / rate));
  const run = (from: number, to: number, input: Float32Array, piece: number) => {
    const resampler = new Resampler(from, to);
    const parts: number[] = [];
    for (let at = 0; at < input.length; at += piece) parts.push(...resampler.push(input.subarray(at, at + piece)));
    return Float32Array.from(parts);
  };
  const rms = (samples: Float32Array) => Math.sqrt(samples.reduce((sum, s) => sum + s * s, 0) / samples.length);

  it('preserves the length and a tone of speech', () => {
    const output = run(48_000, 16_000, tone(1_000, 48_000, 1), 2_048);
    expect(Math.abs(output.length - 16_000)).toBeLessThan(40);
    expect(rms(output.subarray(200, 15_000))).toBeCloseTo(Math.SQRT1_2, 2);
  });

  it('removes what the lower rate cannot hold', () => {
    expect(rms(run(48_000, 16_000, tone(11_000, 48_000, 0.5), 480).subarray(200))).toBeLessThan(0.01);
  });

  it('gives the same whatever the pieces are', () => {
    const input = tone(700, 24_000, 0.2);
    const whole = run(24_000, 48_000, input, input.length);
    const pieces = run(24_000, 48_000, input, 333);
    expect(Math.abs(whole.length - pieces.length)).toBeLessThan(2);
    for (let n = 0; n < pieces.length; n += 97) expect(pieces[n]).toBeCloseTo(whole[n] ?? 0, 5);
  });

  it('has a loudness from 0 to 1', () => {
    expect(loudness(new Float32Array(10))).toBe(0);
    expect(loudness(new Float32Array(10).fill(1))).toBe(1);
    expect(loudness(new Float32Array(10).fill(0.001))).toBeCloseTo(0, 3);
  });
});
