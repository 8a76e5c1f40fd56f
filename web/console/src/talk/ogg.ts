// Opus packets as an Ogg file, for browsers that decode files but not packets (RFC 3533, RFC 7845). Not for playing it.

/** Opus counts samples at this rate, regardless of the audio's rate. */
const RATE = 48_000;
const SERIAL = 0x4b524148;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24;
  for (let bit = 0; bit < 8; bit++) value = value & 0x80000000 ? (value << 1) ^ 0x04c11db7 : value << 1;
  return value >>> 0;
});

export function crc(bytes: Uint8Array): number {
  let value = 0;
  for (const byte of bytes) value = ((value << 8) ^ (TABLE[((value >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0;
  return value;
}

function page(packet: Uint8Array, sequence: number, granule: number, flags: number): Uint8Array {
  const laces = Math.floor(packet.length / 255) + 1;
  const bytes = new Uint8Array(27 + laces + packet.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x4f, 0x67, 0x67, 0x53, 0, flags]);
  view.setUint32(6, granule % 2 ** 32, true);
  view.setUint32(10, Math.floor(granule / 2 ** 32), true);
  view.setUint32(14, SERIAL, true);
  view.setUint32(18, sequence, true);
  bytes[26] = laces;
  bytes.fill(255, 27, 27 + laces - 1);
  bytes[27 + laces - 1] = packet.length % 255;
  bytes.set(packet, 27 + laces);
  view.setUint32(22, crc(bytes), true);
  return bytes;
}

function head(rate: number): Uint8Array {
  const bytes = new Uint8Array(19);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode('OpusHead'));
  bytes.set([1, 1], 8);
  view.setUint32(12, rate, true);
  return bytes;
}

function tags(): Uint8Array {
  const bytes = new Uint8Array(16);
  bytes.set(new TextEncoder().encode('OpusTags'));
  return bytes;
}

/** Returns a file with these packets, all of the same duration. */
export function oggOf(packets: readonly Uint8Array[], rate: number, packetMs: number): Uint8Array<ArrayBuffer> {
  const each = (RATE * packetMs) / 1_000;
  const pages = [page(head(rate), 0, 0, 2), page(tags(), 1, 0, 0)];
  packets.forEach((packet, n) => {
    pages.push(page(packet, n + 2, (n + 1) * each, n === packets.length - 1 ? 4 : 0));
  });
  const whole = new Uint8Array(pages.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of pages) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
