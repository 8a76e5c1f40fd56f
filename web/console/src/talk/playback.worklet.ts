// Audio worklet that plays samples in order and reports the number of queued ones. Not for decoding them.
export {};

/** Rounds of 128 samples between two reports. */
const REPORT_EVERY = 16;

class Playback extends AudioWorkletProcessor {
  private queue: Float32Array[] = [];
  private at = 0;
  private waiting = 0;
  private rounds = 0;

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<Float32Array | 'flush'>) => {
      if (event.data === 'flush') {
        this.queue = [];
        this.at = this.waiting = 0;
      } else {
        this.queue.push(event.data);
        this.waiting += event.data.length;
      }
    };
  }

  process(_: Float32Array[][], outputs: Float32Array[][]): boolean {
    const output = outputs[0]?.[0];
    if (!output) return true;
    for (let filled = 0; filled < output.length && this.queue.length > 0; ) {
      const part = this.queue[0] as Float32Array;
      const count = Math.min(part.length - this.at, output.length - filled);
      output.set(part.subarray(this.at, this.at + count), filled);
      filled += count;
      this.at += count;
      this.waiting -= count;
      if (this.at >= part.length) {
        this.queue.shift();
        this.at = 0;
      }
    }
    if (++this.rounds % REPORT_EVERY === 0) this.port.postMessage(this.waiting);
    return true;
  }
}

registerProcessor('hearken-playback', Playback);
