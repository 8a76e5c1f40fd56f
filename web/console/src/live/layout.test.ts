// Checks the layout of timelines, the visible rows, and the parser of server-sent events.
import { describe, expect, it } from 'vitest';
import type { Turn } from '../lib/types';
import { inView, laneNames, place, rowHeight, ticks, timeline, tops } from './layout';
import { SseParser } from './sse';

const turn = (of: Partial<Turn>): Turn => ({
  id: '1', trace_id: '', kind: 'voice', client: 'aa', began: '2030-01-01T00:00:00Z', state: 'ended', outcome: null,
  heard: null, said: null, firmware: null, cut_off: null, wait_ms: null, spans: [], events: [], ...of,
});
const span = (name: string, start_ms: number, end_ms: number | null) => ({ name, detail: null, start_ms, end_ms });

describe('a timeline', () => {
  it('has one lane per name, in the order of a turn, unknown names last', () => {
    const spans = [span('playback', 5, 6), span('zeta', 0, 1), span('speech', 0, 2), span('tool', 3, 4), span('tool', 4, 5)];
    expect(laneNames(turn({ spans }))).toEqual(['speech', 'tool', 'playback', 'zeta']);
    expect(timeline(turn({ spans }), 0).lanes[1]?.bars.length).toBe(2);
  });

  it('extends an open bar until the turn has ended', () => {
    const spans = [span('model', 100, null)];
    expect(timeline(turn({ spans, state: 'thinking' }), 2_500).lanes[0]?.bars[0]).toMatchObject({ from: 100, to: 2_500, open: true });
    expect(timeline(turn({ spans }), 2_500).lanes[0]?.bars[0]?.to).toBe(100);
  });

  it('places times between its edges, which include events and early speech', () => {
    const line = timeline(turn({ spans: [span('speech', -200, 800)], events: [{ name: 'first_packet', at_ms: 1_800 }] }), 0);
    expect([line.start, line.end]).toEqual([-200, 1_800]);
    expect(place(line, 800)).toBe(0.5);
    expect(place(line, 9_999)).toBe(1);
  });

  it('has round ticks, no more than fit', () => {
    const line = timeline(turn({ spans: [span('speech', 0, 4_300)] }), 0);
    expect(ticks(line, 5)).toEqual([0, 1_000, 2_000, 3_000, 4_000]);
    expect(ticks(line, 2)).toEqual([0, 5_000].filter((at) => at <= 4_300));
  });
});

describe('the list', () => {
  it('computes heights without drawing', () => {
    expect(rowHeight(turn({ spans: [span('a', 0, 1), span('a', 2, 3), span('b', 0, 1)] })) - rowHeight(turn({}))).toBe(16);
    expect(tops([10, 20, 30])).toEqual([0, 10, 30, 60]);
  });

  it('draws the visible rows and one on either side', () => {
    const all = tops(Array.from({ length: 200 }, () => 100));
    expect(inView(all, 0, 500)).toEqual({ first: 0, end: 7 });
    expect(inView(all, 5_050, 500)).toEqual({ first: 49, end: 57 });
    expect(inView(all, 999_999, 500)).toEqual({ first: 199, end: 200 });
    expect(inView([0], 0, 500)).toEqual({ first: 0, end: 0 });
  });
});

describe('server-sent events', () => {
  it('are parsed across chunks, without comments', () => {
    const parser = new SseParser();
    expect(parser.push(': hello\n\nevent: tu')).toEqual([]);
    expect(parser.push('rn\ndata: {"a":\ndata: 1}\n\nevent: x\r\n')).toEqual([{ event: 'turn', data: '{"a":\n1}' }]);
    expect(parser.push('data: y\r\n\r\ndata: z\n\n')).toEqual([{ event: 'x', data: 'y' }, { event: 'message', data: 'z' }]);
  });
});
