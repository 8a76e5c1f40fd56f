// What this browser supports on this page: recording, encoding and playing. Not for doing it.

export interface Ability {
  secure: boolean;
  /** The page may request a microphone. */
  microphone: boolean;
  /** Encodes Opus packets: required to send speech, also from a file. */
  encode: boolean;
  /** Decodes Opus packets as they arrive; otherwise whole sentences are decoded as files. */
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

/** Encoder settings of the firmware: 16 kHz mono, packets of 60 ms. */
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
