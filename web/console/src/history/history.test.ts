// Checks the grouping of stored turns, the spoken part of a reply, and playback from any position.
import { describe, expect, it } from 'vitest';
import type { KeptTurn } from '../lib/types';
import { timeline } from '../live/layout';
import { beginningOf, clientsOf, grouped, modelTimes } from './group';
import { partsFrom, reachOf, tracksOf } from './tracks';

const turn = (id: string, client: string, began: string, of: Partial<KeptTurn> = {}): KeptTurn => ({
  id, client, began, trace_id: '', kind: 'voice', state: 'ended', outcome: 'answered',
  heard: null, said: null, firmware: null, cut_off: null, wait_ms: null, spans: [], events: [], audio: { heard: null, said: null }, ...of,
});
const span = (name: string, start_ms: number, end_ms: number | null) => ({ name, detail: null, start_ms, end_ms });

describe('stored turns', () => {
  it('are grouped by day and client, newest first, also if clients alternate', () => {
    const turns = [
      turn('5', 'a', '2030-01-03T12:03:00'), turn('4', 'b', '2030-01-03T12:02:00'), turn('3', 'a', '2030-01-03T00:01:00'),
      turn('2', 'a', '2030-01-02T23:59:00'), turn('1', 'b', '2030-01-01T12:00:00'),
    ];
    expect(grouped(turns).map((group) => [group.client, group.turns.map((one) => one.id).join()])).toEqual([
      ['a', '5,3'], ['b', '4'], ['a', '2'], ['b', '1'],
    ]);
    expect(grouped([])).toEqual([]);
  });

  it('list each client once, also with turns of several kinds', () => {
    const one = (client: string, kind: 'voice' | 'text') => ({ client, kind, turns: 1, last: '' });
    expect(clientsOf({ clients: [one('b', 'voice'), one('a', 'text'), one('b', 'text')] })).toEqual(['b', 'a']);
  });

  it('have the total time of the model over all of its spans', () => {
    const spans = [span('model', 100, 900), span('model_first_word', 100, 400), span('tool', 900, 950), span('model', 950, 2_000), span('model_first_word', 950, 1_000)];
    expect(modelTimes({ spans })).toEqual({ first: 300, total: 1_900 });
    expect(modelTimes({ spans: [span('model', 100, null), span('speech', 0, 50)] })).toEqual({ first: null, total: null });
  });
});

describe('the spoken part of a reply', () => {
  it('is the whole text, or its start up to the end of a word', () => {
    expect(beginningOf('  It is ten. ')).toBe('It is ten.');
    expect(beginningOf('word '.repeat(300))).toBe('word '.repeat(200).trimEnd());
    expect(beginningOf(`${'a'.repeat(990)} ${'b'.repeat(20)}`)).toBe('a'.repeat(990));
  });

  it('is cut between characters if there are no words', () => {
    expect(beginningOf('灯'.repeat(1_001))).toBe('灯'.repeat(1_000));
    expect(beginningOf('😀'.repeat(1_001))).toBe('😀'.repeat(1_000));
  });
});

describe('the audio of a turn', () => {
  const audio = { heard: { start_ms: 10, length_ms: 1_000 }, said: { start_ms: 2_000, length_ms: 1_510 } };
  const tracks = tracksOf(audio);

  it('is placed on the time axis in whole steps, which the timeline includes', () => {
    expect(tracks).toEqual([{ voice: 'heard', from: 10, to: 1_010 }, { voice: 'said', from: 2_000, to: 3_510 }]);
    expect(reachOf(tracks)).toEqual({ from: 0, to: 3_550 });
    expect(reachOf(tracksOf({ heard: { start_ms: -30, length_ms: 100 }, said: null }))).toEqual({ from: -50, to: 100 });
    const line = timeline(turn('1', 'a', '2030-01-01T00:00:00Z', { spans: [span('speech', 0, 500)] }), 0, { from: -50, to: 3_550 });
    expect([line.start, line.end]).toEqual([-50, 3_550]);
  });

  it('is none if nothing is stored or the audio is empty', () => {
    expect(tracksOf({ heard: null, said: null })).toEqual([]);
    expect(tracksOf({ heard: { start_ms: 0, length_ms: 0 }, said: null })).toEqual([]);
    expect(reachOf([])).toBeNull();
  });

  it('is played from any position, with the silence in between', () => {
    expect(partsFrom(tracks, 0)).toEqual([{ voice: 'heard', after: 10, skip: 0 }, { voice: 'said', after: 2_000, skip: 0 }]);
    expect(partsFrom(tracks, 500)).toEqual([{ voice: 'heard', after: 0, skip: 490 }, { voice: 'said', after: 1_500, skip: 0 }]);
    expect(partsFrom(tracks, 2_500)).toEqual([{ voice: 'said', after: 0, skip: 500 }]);
    expect(partsFrom(tracks, 3_510)).toEqual([]);
  });

  it('overlaps if the user spoke during the reply', () => {
    const both = tracksOf({ heard: { start_ms: 1_500, length_ms: 1_000 }, said: { start_ms: 1_000, length_ms: 1_000 } });
    expect(partsFrom(both, 1_600)).toEqual([{ voice: 'said', after: 0, skip: 600 }, { voice: 'heard', after: 0, skip: 100 }]);
  });
});
