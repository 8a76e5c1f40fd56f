// Checks the part of a turn with the largest share of the wait.
import { describe, expect, it } from 'vitest';
import type { Span } from '../lib/types';
import { culprit, explain, length, subtract, union, waitOf } from './culprit';

const span = (name: string, start_ms: number, end_ms: number | null): Span => ({ name, detail: null, start_ms, end_ms });
const packet = (at_ms: number) => [{ name: 'first_packet', at_ms }];

describe('intervals', () => {
  it('are merged if they overlap or touch', () => {
    expect(union([{ from: 5, to: 9 }, { from: 0, to: 3 }, { from: 3, to: 6 }, { from: 20, to: 20 }])).toEqual([{ from: 0, to: 9 }]);
    expect(length([{ from: 0, to: 10 }, { from: 5, to: 12 }, { from: 20, to: 21 }])).toBe(13);
  });

  it('are subtracted from others', () => {
    expect(subtract([{ from: 0, to: 10 }], [{ from: 2, to: 4 }, { from: 9, to: 99 }])).toEqual([{ from: 0, to: 2 }, { from: 4, to: 9 }]);
    expect(subtract([{ from: 0, to: 10 }], [{ from: -5, to: 20 }])).toEqual([]);
  });
});

describe('the wait', () => {
  it('goes from the end of speech to the first packet', () => {
    expect(waitOf({ spans: [span('speech', 0, 1_200)], events: packet(2_000) })).toEqual({ from: 1_200, to: 2_000 });
  });

  it('starts after the last speech before the packet', () => {
    const spans = [span('speech', 0, 500), span('speech', 800, 1_000), span('speech', 3_000, 3_500)];
    expect(waitOf({ spans, events: packet(2_000) })).toEqual({ from: 1_000, to: 2_000 });
  });

  it('starts with a typed turn itself', () => {
    expect(waitOf({ spans: [span('model', 5, 900)], events: packet(700) })).toEqual({ from: 0, to: 700 });
  });

  it('is unknown without a packet, and while speech goes on', () => {
    expect(waitOf({ spans: [span('speech', 0, 10)], events: [] })).toBeNull();
    expect(waitOf({ spans: [span('speech', 0, 900)], events: packet(400) })).toBeNull();
  });
});

describe('the culprit', () => {
  it('is the span with the largest share of the wait', () => {
    const spans = [
      span('speech', 0, 1_000), span('silence', 1_000, 1_100), span('recognition', 900, 1_150),
      span('model_first_word', 1_150, 1_980), span('model', 1_150, 4_000), span('voice_first_sound', 1_980, 2_000), span('playback', 2_000, 9_000),
    ];
    const found = culprit({ spans, events: packet(2_000) });
    expect(found?.name).toBe('model_first_word');
    expect(Math.round((found?.share ?? 0) * 100)).toBe(83);
    expect(found?.wait).toBe(1_000);
  });

  it('counts overlapping spans of one name once, and only within the wait', () => {
    const spans = [span('speech', 0, 100), span('tool', 50, 300), span('tool', 200, 400), span('recognition', 100, 380)];
    const shares = explain({ spans, events: packet(1_100) })?.shares;
    expect(shares).toEqual([{ name: 'tool', ms: 300, share: 0.3 }, { name: 'recognition', ms: 280, share: 0.28 }]);
  });

  it('counts a wide span only for moments that no other covers', () => {
    const spans = [span('speech', 0, 0), span('model', 0, 1_000), span('model_first_word', 0, 300), span('tool', 300, 800)];
    expect(explain({ spans, events: packet(1_000) })?.shares.map((share) => [share.name, share.ms])).toEqual([['tool', 500], ['model_first_word', 300], ['model', 200]]);
  });

  it('counts an open span until the end of the wait', () => {
    expect(culprit({ spans: [span('speech', 0, 10), span('admission', 10, null)], events: packet(110) })?.ms).toBe(100);
  });

  it('is null if no span explains the wait', () => {
    expect(culprit({ spans: [span('speech', 0, 10), span('playback', 10, 99)], events: packet(50) })).toBeNull();
  });
});
