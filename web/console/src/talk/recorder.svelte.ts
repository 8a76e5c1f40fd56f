// Records the microphone as samples at 16 kHz. Not for their use.
import { loudness } from './resample';
import { openMicrophone } from './sources';
import { UPLINK_RATE } from './wire';

/** Returns true if this page may request a microphone. */
export const canRecord = (): boolean => isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);

export class Recorder {
  running = $state(false);
  /** Current loudness, from 0 to 1. */
  level = $state(0);
  /** Length of the recording, in milliseconds. */
  length = $state(0);
  private end: (() => void) | null = null;
  private closed = false;

  /** Records until `stop`, at most for `longestMs`. Fails if the microphone is not available. */
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

  /** Ends a recording permanently, also while the microphone is still being requested. */
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
