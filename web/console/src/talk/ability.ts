// What this browser can do here: record, encode and play. Not for doing it.

export interface Ability {
  secure: boolean;
  /** Has a microphone that pages may ask for. */
  microphone: boolean;
  /** Encodes Opus packets, so that it can speak, from a file too. */
  encode: boolean;
  /** Decodes Opus packets as they come; without it, whole sentences are decoded as files. */
  decode: boolean;
}

export async function ability(): Promise<Ability> {
  const worklet = typeof AudioWorkletNode !== 'undefined';
  return {
    secure: isSecureContext,
    microphone: worklet && Boolean(navigator.mediaDevices?.getUserMedia),
    encode: await supported(() => AudioEncoder.isConfigSupported(ENCODER)),
    decode: worklet && (await supported(() => AudioDecoder.isConfigSupported(decoderAt(24_000)))),
  };
}

/** Settings of the encoder: what firmware sends, 16 kHz mono in packets of 60 ms. */
export const ENCODER: AudioEncoderConfig = {
  codec: 'opus', sampleRate: 16_000, numberOfChannels: 1, bitrate: 24_000,
  opus: { format: 'opus', frameDuration: 60_000 },
};

export function decoderAt(sampleRate: number): AudioDecoderConfig {
  return { codec: 'opus', sampleRate, numberOfChannels: 1 };
}

async function supported(ask: () => Promise<{ supported?: boolean }>): Promise<boolean> {
  try {
    return (await ask()).supported === true;
  } catch {
    // Not a browser with WebCodecs, or not a secure context.
    return false;
  }
}
