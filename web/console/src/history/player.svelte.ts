// Plays the audio of a turn on its time axis: play, pause, seek; one turn at a time. Decodes the files itself, so that
// the content security policy need not allow media. Not for the buttons.
import type { Voice } from '../lib/types';
import type { Interval } from '../live/culprit';
import { partsFrom, type Track } from './tracks';

export class Player {
  /** Position in milliseconds since the start of the turn. */
  at = $state(0);
  playing = $state(false);
  /** Player that was started last. */
  private static last: Player | null = null;
  private context: AudioContext | null = null;
  private readonly sounds = new Map<Voice, AudioBuffer>();
  private sources: AudioBufferSourceNode[] = [];
  private base = { time: 0, at: 0 };
  private frame = 0;
  private closed = false;

  constructor(
    private readonly tracks: readonly Track[],
    private readonly reach: Interval,
    private readonly load: (voice: Voice) => Promise<Blob>,
  ) {
    this.at = reach.from;
  }

  /** Plays from the position, or from the start if it is at the end. Loads the audio the first time. */
  async play(): Promise<void> {
    const context = (this.context ??= new AudioContext());
    await context.resume();
    await Promise.all(this.tracks.map(({ voice }) => this.decode(context, voice)));
    if (this.closed) return;
    if (Player.last !== this) Player.last?.pause();
    Player.last = this;
    if (this.at >= this.reach.to) this.at = this.reach.from;
    this.playing = true;
    this.start(context);
  }

  pause(): void {
    this.silence();
    this.playing = false;
  }

  seek(to: number): void {
    this.at = Math.min(this.reach.to, Math.max(this.reach.from, to));
    if (!this.playing || !this.context) return;
    this.silence();
    this.start(this.context);
  }

  close(): void {
    this.closed = true;
    this.pause();
    if (Player.last === this) Player.last = null;
    void this.context?.close();
  }

  private async decode(context: AudioContext, voice: Voice): Promise<void> {
    if (this.sounds.has(voice)) return;
    const file = await this.load(voice);
    if (!this.closed) this.sounds.set(voice, await context.decodeAudioData(await file.arrayBuffer()));
  }

  private start(context: AudioContext): void {
    this.base = { time: context.currentTime, at: this.at };
    for (const part of partsFrom(this.tracks, this.at)) {
      const source = context.createBufferSource();
      source.buffer = this.sounds.get(part.voice) ?? null;
      source.connect(context.destination);
      source.start(this.base.time + part.after / 1_000, part.skip / 1_000);
      this.sources.push(source);
    }
    this.follow();
  }

  private follow = (): void => {
    if (!this.context) return;
    this.at = Math.min(this.reach.to, this.base.at + (this.context.currentTime - this.base.time) * 1_000);
    if (this.at >= this.reach.to) this.pause();
    else this.frame = requestAnimationFrame(this.follow);
  };

  private silence(): void {
    cancelAnimationFrame(this.frame);
    for (const source of this.sources) {
      source.stop();
      source.disconnect();
    }
    this.sources = [];
  }
}
