// Where the sounds of a turn stand on its time axis, and what of them is to be played from a moment on. Not for playing.
import type { KeptTurn, Voice } from '../lib/types';
import type { Interval } from '../live/culprit';

/** One sound; times are milliseconds since the turn began. */
export interface Track extends Interval { voice: Voice }
/** What is left of a sound: the time until it starts, and the part of it that is left out, in milliseconds. */
export interface Part { voice: Voice; after: number; skip: number }

/** Distance between two positions of the scrubber, in milliseconds. */
export const STEP = 50;

/** Returns the sounds that are kept of a turn, in the order in which they begin. */
export function tracksOf(audio: KeptTurn['audio']): Track[] {
  const all = (['heard', 'said'] as const).flatMap((voice): Track[] => {
    const sound = audio?.[voice];
    return sound && sound.length_ms > 0 ? [{ voice, from: sound.start_ms, to: sound.start_ms + sound.length_ms }] : [];
  });
  return all.sort((a, b) => a.from - b.from);
}

/** Returns the time from the first to the last moment of sound, in whole steps. Null without sound. */
export function reachOf(tracks: readonly Track[]): Interval | null {
  if (tracks.length === 0) return null;
  const from = Math.floor(Math.min(...tracks.map((track) => track.from)) / STEP) * STEP;
  return { from, to: Math.ceil(Math.max(...tracks.map((track) => track.to)) / STEP) * STEP };
}

/** Returns what is to be played from a moment on: silence between the sounds lasts as long as it did. */
export function partsFrom(tracks: readonly Track[], at: number): Part[] {
  return tracks
    .filter((track) => track.to > at)
    .map((track) => ({ voice: track.voice, after: Math.max(0, track.from - at), skip: Math.max(0, at - track.from) }));
}
