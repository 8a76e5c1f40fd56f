// Records the microphone for a while, as samples at 16 kHz. Not for what is made of them.
import { loudness } from './resample';
import { openMicrophone } from './sources';
import { UPLINK_RATE } from './wire';

/** Returns true if the browser gives this page a microphone. */
export const canRecord = (): boolean => isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);

export class Recorder {
  running = $state(false);
  /** Loudness of now, from 0 to 1. */
  level = $state(0);
  /** Length of what was recorded, in milliseconds. */
  length = $state(0);
  private end: (() => void) | null = null;
  private closed = false;

  /** Records until `stop`, or for this long. Fails if the microphone cannot be used. */
  async record(longestMs: number): Promise<Float32Array> {
    const context = new AudioContext();
    const parts: Float32Array[] = [];
    let close: (() => void) | null = null;
    this.level = this.length = 0;
    try {
      close = await openMicrophone(context, (samples) => this.take(parts, samples, longestMs));
      this.running = true;
      await new Promise<void>((done) => {
        this.end = done;
        if (this.closed) done();
      });
    } finally {
      this.running = false;
      this.end = null;
      close?.();
      await context.close();
    }
    return joined(parts).subarray(0, (longestMs / 1_000) * UPLINK_RATE);
  }

  stop(): void {
    this.end?.();
  }

  /** Ends a recording for good, also one whose microphone is still being asked for. */
  close(): void {
    this.closed = true;
    this.stop();
  }

  private take(parts: Float32Array[], samples: Float32Array, longestMs: number): void {
    parts.push(samples);
    this.level = loudness(samples);
    this.length = Math.min(longestMs, this.length + (samples.length / UPLINK_RATE) * 1_000);
    if (this.length >= longestMs) this.stop();
  }
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
