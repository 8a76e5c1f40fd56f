// Changes the sample rate of a stream with a windowed sinc filter. Not for sources and outputs of audio.

/** Half width of the filter, in periods of the lower rate. */
const REACH = 12;

export class Resampler {
  private readonly step: number;
  private readonly cut: number;
  private readonly reach: number;
  private kept: Float32Array<ArrayBuffer>;
  /** Position of the next output sample within `kept`. */
  private at: number;

  constructor(from: number, to: number) {
    this.step = from / to;
    this.cut = Math.min(1, to / from) * 0.94;
    this.reach = Math.ceil(REACH / Math.min(1, to / from));
    this.kept = new Float32Array(this.reach);
    this.at = this.reach;
  }

  /** Adds input and returns the output that it completes; the reach of the filter is held back. */
  push(input: Float32Array): Float32Array<ArrayBuffer> {
    const all = new Float32Array(this.kept.length + input.length);
    all.set(this.kept);
    all.set(input, this.kept.length);
    const last = all.length - this.reach - 1;
    const count = Math.max(0, Math.floor((last - this.at) / this.step) + 1);
    const output = new Float32Array(count);
    for (let n = 0; n < count; n++) output[n] = this.sample(all, this.at + n * this.step);
    this.at += count * this.step;
    const from = Math.max(0, Math.floor(this.at) - this.reach);
    this.kept = all.slice(from);
    this.at -= from;
    return output;
  }

  private sample(all: Float32Array, position: number): number {
    const centre = Math.floor(position);
    let sum = 0;
    for (let n = centre - this.reach + 1; n <= centre + this.reach; n++) {
      sum += (all[n] ?? 0) * kernel(position - n, this.cut, this.reach);
    }
    return sum;
  }
}

function kernel(distance: number, cut: number, reach: number): number {
  if (Math.abs(distance) >= reach) return 0;
  const window = 0.5 + 0.5 * Math.cos((Math.PI * distance) / reach);
  const angle = Math.PI * distance * cut;
  return window * (angle === 0 ? cut : (cut * Math.sin(angle)) / angle);
}

/** Returns the loudness of samples from 0 to 1, on a scale of 60 dB. */
export function loudness(samples: Float32Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const rms = Math.sqrt(sum / Math.max(1, samples.length));
  return rms <= 0 ? 0 : Math.min(1, Math.max(0, 1 + (20 * Math.log10(rms)) / 60));
}
