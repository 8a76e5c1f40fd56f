// The audio tracks of a turn on its time axis, and the parts to play from a position. Not for playing.
import type { KeptTurn, Voice } from '../lib/types';
import type { Interval } from '../live/culprit';

/** Audio of one side; times in milliseconds since the start of the turn. */
export interface Track extends Interval { voice: Voice }
/** Remaining part of a track: the delay until it starts, and the skipped part, in milliseconds. */
export interface Part { voice: Voice; after: number; skip: number }

/** Distance between two positions of the scrubber, in milliseconds. */
export const STEP = 50;

/** Returns the stored tracks of a turn, ordered by start. */
export function tracksOf(audio: KeptTurn['audio']): Track[] {
  const all = (['heard', 'said'] as const).flatMap((voice): Track[] => {
    const sound = audio?.[voice];
    return sound && sound.length_ms > 0 ? [{ voice, from: sound.start_ms, to: sound.start_ms + sound.length_ms }] : [];
  });
  return all.sort((a, b) => a.from - b.from);
}

/** Returns the interval from the start of the first track to the end of the last, in whole steps; null without audio. */
export function reachOf(tracks: readonly Track[]): Interval | null {
  if (tracks.length === 0) return null;
  const from = Math.floor(Math.min(...tracks.map((track) => track.from)) / STEP) * STEP;
  return { from, to: Math.ceil(Math.max(...tracks.map((track) => track.to)) / STEP) * STEP };
}

/** Returns the parts to play from a position; the silence between tracks has its original duration. */
export function partsFrom(tracks: readonly Track[], at: number): Part[] {
  return tracks
    .filter((track) => track.to > at)
    .map((track) => ({ voice: track.voice, after: Math.max(0, track.from - at), skip: Math.max(0, at - track.from) }));
}
