// Sources of speech: the microphone, or a file in its place, as samples at 16 kHz. Not for encoding.
import captureUrl from './capture.worklet.ts?worker&url';
import { Resampler } from './resample';
import { FRAME_MS, FRAME_SAMPLES, UPLINK_RATE } from './wire';

export type OnSamples = (samples: Float32Array) => void;

/** Opens the microphone. Returns a function that closes it. */
export async function openMicrophone(context: AudioContext, onSamples: OnSamples): Promise<() => void> {
  const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
  const stream = await navigator.mediaDevices.getUserMedia({ audio });
  await context.audioWorklet.addModule(captureUrl);
  const source = context.createMediaStreamSource(stream);
  const node = new AudioWorkletNode(context, 'hearken-capture', { numberOfOutputs: 0, channelCount: 1 });
  const resampler = new Resampler(context.sampleRate, UPLINK_RATE);
  node.port.onmessage = (event: MessageEvent<Float32Array>) => onSamples(resampler.push(event.data));
  source.connect(node);
  return () => {
    source.disconnect();
    node.port.onmessage = null;
    for (const track of stream.getTracks()) track.stop();
  };
}

/** Reads an audio file of any format that the browser supports, as mono samples at 16 kHz. */
export async function readFile(file: Blob): Promise<Float32Array> {
  const decoder = new OfflineAudioContext(1, 1, UPLINK_RATE);
  const sound = await decoder.decodeAudioData(await file.arrayBuffer());
  const length = Math.max(1, Math.ceil(sound.duration * UPLINK_RATE));
  const mixer = new OfflineAudioContext(1, length, UPLINK_RATE);
  const source = mixer.createBufferSource();
  source.buffer = sound;
  source.connect(mixer.destination);
  source.start();
  return (await mixer.startRendering()).getChannelData(0);
}

/**
 * Emits the samples in real time, then silence while `goOn` returns true. Resolves at the end.
 */
export async function speakFile(samples: Float32Array, onSamples: OnSamples, goOn: (spokenMs: number) => boolean): Promise<void> {
  const began = performance.now();
  const wholeMs = (samples.length / UPLINK_RATE) * 1_000;
  for (let n = 0; ; n++) {
    if (n * FRAME_MS >= wholeMs && !goOn(n * FRAME_MS - wholeMs)) return;
    const frame = new Float32Array(FRAME_SAMPLES);
    frame.set(samples.subarray(n * FRAME_SAMPLES, (n + 1) * FRAME_SAMPLES));
    onSamples(frame);
    const due = began + (n + 1) * FRAME_MS;
    await new Promise((done) => setTimeout(done, Math.max(0, due - performance.now())));
    if (!goOn(-1)) return;
  }
}
