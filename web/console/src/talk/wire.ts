// Messages between a device and the server, as far as this page uses them. Not for binary frames: see framing.ts.

export type Mode = 'manual' | 'auto' | 'realtime';
export const MODES: readonly Mode[] = ['manual', 'auto', 'realtime'];

/** Duration of a packet to the server, and its sample rate. */
export const FRAME_MS = 60;
export const UPLINK_RATE = 16_000;
export const FRAME_SAMPLES = (UPLINK_RATE * FRAME_MS) / 1_000;

export const EMOTIONS = {
  neutral: '😶', happy: '🙂', laughing: '😆', funny: '😂', sad: '😔', angry: '😠', crying: '😭', loving: '😍', embarrassed: '😳',
  surprised: '😯', shocked: '😱', thinking: '🤔', winking: '😉', cool: '😎', relaxed: '😌', delicious: '🤤', kissy: '😘',
  confident: '😏', sleepy: '😴', silly: '😜', confused: '🙄',
} as const;
export type Emotion = keyof typeof EMOTIONS;

export function emotionOf(name: unknown): Emotion {
  return typeof name === 'string' && Object.hasOwn(EMOTIONS, name) ? (name as Emotion) : 'neutral';
}

export interface AudioParams { sample_rate: number; frame_duration: number }

/** A message of the server, parsed leniently. */
export interface Downlink {
  type: string; state?: string; text?: string; emotion?: string; session_id?: string; is_final?: boolean; status?: string;
  message?: string; command?: string; payload?: unknown; audio_params?: AudioParams;
}

/** Parses a text frame; null if it is not a message. */
export function readMessage(text: string): Downlink | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    return typeof (value as Downlink).type === 'string' ? (value as Downlink) : null;
  } catch {
    return null;
  }
}

export function hello(version: number): object {
  return {
    type: 'hello', version, transport: 'websocket', features: { mcp: true, partial_stt: true, plays_at_once: true },
    audio_params: { format: 'opus', sample_rate: UPLINK_RATE, channels: 1, frame_duration: FRAME_MS },
  };
}

/** Returns the audio parameters of the server's hello, with the defaults of firmware. */
export function audioOf(message: Downlink): AudioParams {
  const { sample_rate, frame_duration } = message.audio_params ?? { sample_rate: 0, frame_duration: 0 };
  return { sample_rate: sample_rate || 24_000, frame_duration: frame_duration || 60 };
}

/** Returns the address of the device socket at this site, with ids and token in the query; `host` may include a path. */
export function socketUrl(
  site: { protocol: string; host: string },
  ids: { deviceId: string; clientId: string; token: string; version: number },
): string {
  const query = new URLSearchParams({
    'device-id': ids.deviceId, 'client-id': ids.clientId, 'protocol-version': String(ids.version),
  });
  if (ids.token) query.set('authorization', `Bearer ${ids.token}`);
  return `${site.protocol === 'https:' ? 'wss' : 'ws'}://${site.host}/xiaozhi/v1/?${query}`;
}

/** Creates an id in the form of a locally administered MAC address. */
export function newDeviceId(random: Uint8Array): string {
  const bytes = [0x02, ...random.slice(0, 5)];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(':');
}

/** Creates a version 4 UUID; `crypto.randomUUID` requires a secure context. */
export function newUuid(random: Uint8Array): string {
  const bytes = Array.from(random.slice(0, 16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
