// From Opus packets to sound: decoded packet by packet, or one sentence at a time as a file if the browser lacks a
// decoder.
import { decoderAt } from './ability';
import { oggOf } from './ogg';
import playbackUrl from './playback.worklet.ts?worker&url';
import { loudness, Resampler } from './resample';
import type { AudioParams } from './wire';

export interface Player {
  push(packet: Uint8Array): void;
  /** Marks the end of a sentence: its file can be played now. */
  sentence(): void;
  /** Drops everything that has not been played. */
  flush(): void;
  /** Resolves when everything has been played. */
  drained(): Promise<void>;
  close(): void;
}

/** Maximum wait for the end of playback, in milliseconds. */
const DRAIN_MS = 8_000;

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Decodes each packet as it arrives and plays it in a worklet. */
export class PacketPlayer implements Player {
  private readonly decoder: AudioDecoder;
  private resampler: Resampler | null = null;
  private rate = 0;
  private waiting = 0;
  private packets = 0;
  private round = 0;

  private constructor(
    private readonly context: AudioContext,
    private readonly node: AudioWorkletNode,
    private readonly params: AudioParams,
    private readonly onLevel: (level: number) => void,
  ) {
    node.port.onmessage = (event: MessageEvent<number>) => (this.waiting = event.data);
    this.decoder = new AudioDecoder({ output: (sound) => this.play(sound), error: () => undefined });
    this.decoder.configure(decoderAt(params.sample_rate));
  }

  static async open(
    context: AudioContext, out: AudioNode, params: AudioParams, onLevel: (level: number) => void,
  ): Promise<PacketPlayer> {
    await context.audioWorklet.addModule(playbackUrl);
    const node = new AudioWorkletNode(context, 'hearken-playback', { numberOfInputs: 0, outputChannelCount: [1] });
    node.connect(out);
    return new PacketPlayer(context, node, params, onLevel);
  }

  push(packet: Uint8Array): void {
    // Packets of 0 or 1 byte are silence (DTX).
    if (packet.length < 2 || this.decoder.state !== 'configured') return;
    const timestamp = this.packets++ * this.params.frame_duration * 1_000;
    this.decoder.decode(new EncodedAudioChunk({ type: 'key', timestamp, data: packet }));
  }

  sentence(): void {}

  flush(): void {
    this.round++;
    this.waiting = 0;
    this.node.port.postMessage('flush');
    if (this.decoder.state !== 'configured') return;
    this.decoder.reset();
    this.decoder.configure(decoderAt(this.params.sample_rate));
    this.resampler = null;
    this.rate = 0;
  }

  async drained(): Promise<void> {
    const round = this.round;
    if (this.decoder.state === 'configured') await this.decoder.flush().catch(() => undefined);
    const until = performance.now() + DRAIN_MS;
    // The worklet reports with a delay: it must be empty several times in a row.
    for (let quiet = 0; quiet < 4 && round === this.round && performance.now() < until; ) {
      await pause(30);
      quiet = this.waiting > 0 ? 0 : quiet + 1;
    }
  }

  close(): void {
    this.node.disconnect();
    if (this.decoder.state !== 'closed') this.decoder.close();
  }

  private play(sound: AudioData): void {
    const samples = new Float32Array(sound.numberOfFrames);
    sound.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
    if (this.rate !== sound.sampleRate) {
      this.rate = sound.sampleRate;
      this.resampler = this.rate === this.context.sampleRate ? null : new Resampler(this.rate, this.context.sampleRate);
    }
    sound.close();
    this.onLevel(loudness(samples));
    const ready = this.resampler ? this.resampler.push(samples) : samples;
    this.waiting += ready.length;
    this.node.port.postMessage(ready, [ready.buffer]);
  }
}

/** Collects the packets of a sentence and plays each sentence as a file. */
export class SentencePlayer implements Player {
  private packets: Uint8Array[] = [];
  private playing = new Set<AudioBufferSourceNode>();
  private work: Promise<void> = Promise.resolve();
  private free = 0;
  private round = 0;

  constructor(
    private readonly context: AudioContext,
    private readonly out: AudioNode,
    private readonly params: AudioParams,
    private readonly onLevel: (level: number) => void,
  ) {}

  push(packet: Uint8Array): void {
    if (packet.length >= 2) this.packets.push(packet.slice());
  }

  sentence(): void {
    if (this.packets.length === 0) return;
    const file = oggOf(this.packets, this.params.sample_rate, this.params.frame_duration);
    const round = this.round;
    this.packets = [];
    // A sentence that cannot be decoded is skipped: its text is shown.
    this.work = this.work.then(() => this.play(file, round)).catch(() => undefined);
  }

  flush(): void {
    this.round++;
    this.packets = [];
    this.free = 0;
    for (const source of this.playing) source.stop();
    this.playing.clear();
  }

  async drained(): Promise<void> {
    this.sentence();
    await this.work;
    const until = performance.now() + DRAIN_MS;
    while (this.playing.size > 0 && performance.now() < until) await pause(30);
  }

  close(): void {
    this.flush();
  }

  private async play(file: Uint8Array<ArrayBuffer>, round: number): Promise<void> {
    const sound = await this.context.decodeAudioData(file.buffer);
    if (round !== this.round) return;
    const source = this.context.createBufferSource();
    source.buffer = sound;
    source.connect(this.out);
    this.free = Math.max(this.free, this.context.currentTime + 0.02);
    source.start(this.free);
    this.free += sound.duration;
    this.onLevel(loudness(sound.getChannelData(0)));
    this.playing.add(source);
    source.onended = () => this.playing.delete(source);
  }
}
