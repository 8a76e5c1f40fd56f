// From samples at 16 kHz to Opus packets of 60 ms. Not for sources of samples, nor for sending packets.
import { ENCODER } from './ability';
import { FRAME_MS, FRAME_SAMPLES, UPLINK_RATE } from './wire';

export class Uplink {
  private readonly encoder: AudioEncoder;
  private rest = new Float32Array(0);
  private frames = 0;

  constructor(onPacket: (packet: Uint8Array) => void, onError: (error: Error) => void) {
    this.encoder = new AudioEncoder({
      output: (chunk) => {
        const packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(packet);
        onPacket(packet);
      },
      error: onError,
    });
    this.encoder.configure(ENCODER);
  }

  push(samples: Float32Array): void {
    const all = new Float32Array(this.rest.length + samples.length);
    all.set(this.rest);
    all.set(samples, this.rest.length);
    let at = 0;
    for (; at + FRAME_SAMPLES <= all.length; at += FRAME_SAMPLES) this.frame(all.slice(at, at + FRAME_SAMPLES));
    this.rest = all.slice(at);
  }

  /** Encodes the rest and waits until all packets have been emitted. */
  async finish(): Promise<void> {
    if (this.rest.length > 0) {
      const last = new Float32Array(FRAME_SAMPLES);
      last.set(this.rest);
      this.rest = new Float32Array(0);
      this.frame(last);
    }
    if (this.encoder.state === 'configured') await this.encoder.flush().catch(() => undefined);
  }

  close(): void {
    if (this.encoder.state !== 'closed') this.encoder.close();
  }

  private frame(data: Float32Array<ArrayBuffer>): void {
    if (this.encoder.state !== 'configured') return;
    const timestamp = this.frames++ * FRAME_MS * 1_000;
    const of = { format: 'f32' as const, sampleRate: UPLINK_RATE, numberOfFrames: data.length, numberOfChannels: 1, timestamp };
    const sound = new AudioData({ ...of, data });
    this.encoder.encode(sound);
    sound.close();
  }
}
