// Binary frames of devices: one Opus packet each, with or without a header. Integers are big-endian. Not for audio.

export type Framing = 1 | 2 | 3;
export const FRAMINGS: readonly Framing[] = [1, 2, 3];

const HEADER: Record<Framing, number> = { 1: 0, 2: 16, 3: 4 };

/** Adds the header of a version to a packet. */
export function pack(version: Framing, packet: Uint8Array): Uint8Array<ArrayBuffer> {
  const size = HEADER[version];
  const frame = new Uint8Array(size + packet.length);
  const view = new DataView(frame.buffer);
  if (version === 2) {
    view.setUint16(0, 2);
    view.setUint32(12, packet.length);
  } else if (version === 3) {
    view.setUint16(2, packet.length);
  }
  frame.set(packet, size);
  return frame;
}

/** Returns the packet of a frame; null if the header is invalid. Bytes after the payload are ignored. */
export function unpack(version: Framing, frame: Uint8Array): Uint8Array | null {
  if (version === 1) return frame;
  const start = HEADER[version];
  if (frame.length < start) return null;
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const isAudio = version === 2 ? view.getUint16(0) === 2 && view.getUint16(2) === 0 : view.getUint8(0) === 0;
  const length = version === 2 ? view.getUint32(12) : view.getUint16(2);
  if (!isAudio || start + length > frame.length) return null;
  return frame.subarray(start, start + length);
}
