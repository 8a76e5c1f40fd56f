// Audio worklet that passes the microphone's samples to the page, in blocks. Not for encoding them.
export {};

/** Samples of a block: 16 rounds of 128. */
const BLOCK = 2_048;

class Capture extends AudioWorkletProcessor {
  private block = new Float32Array(BLOCK);
  private filled = 0;

  process(inputs: Float32Array[][]): boolean {
    const heard = inputs[0]?.[0];
    if (!heard) return true;
    this.block.set(heard, this.filled);
    this.filled += heard.length;
    if (this.filled >= BLOCK) {
      this.port.postMessage(this.block, [this.block.buffer]);
      this.block = new Float32Array(BLOCK);
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor('hearken-capture', Capture);
