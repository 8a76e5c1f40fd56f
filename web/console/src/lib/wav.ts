// WAV files from samples, their duration, and base64. Not for recording.

/** Creates a WAV file: 16 bit, mono. */
export function wavOf(samples: Float32Array, rate: number): Uint8Array {
  const bytes = new Uint8Array(44 + samples.length * 2);
  const view = new DataView(bytes.buffer);
  const text = (at: number, word: string) => bytes.set(new TextEncoder().encode(word), at);
  text(0, 'RIFF');
  view.setUint32(4, bytes.length - 8, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, samples.length * 2, true);
  samples.forEach((sample, n) => view.setInt16(44 + n * 2, Math.round(Math.max(-1, Math.min(1, sample)) * 32_767), true));
  return bytes;
}

export function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Returns the duration of a WAV file in milliseconds; 0 if it is not one. */
export function lengthOf(file: Uint8Array): number {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let bytesPerSecond = 0;
  for (let at = 12; at + 8 <= file.length; ) {
    const size = view.getUint32(at + 4, true);
    const name = String.fromCharCode(...file.subarray(at, at + 4));
    if (name === 'fmt ' && at + 20 <= file.length) bytesPerSecond = view.getUint32(at + 16, true);
    // The size in the header of a streamed file may be wrong.
    if (name === 'data') return bytesPerSecond > 0 ? (Math.min(size, file.length - at - 8) / bytesPerSecond) * 1_000 : 0;
    at += 8 + size + (size % 2);
  }
  return 0;
}
