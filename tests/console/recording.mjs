// Records what a page plays, as a WAV file with 16 bits. Not for what is heard on it.

/** Records from now on, in every page that is opened. */
export async function recordOutput(page) {
  await page.addInitScript(() => {
    const connect = AudioNode.prototype.connect;
    window.played = { rate: 0, parts: [] };
    const record = (from, output) => {
      const recorder = output.context.createScriptProcessor(16_384, 1, 1);
      window.played.rate = output.context.sampleRate;
      recorder.onaudioprocess = ({ inputBuffer }) => window.played.parts.push(inputBuffer.getChannelData(0).slice());
      connect.call(from, recorder);
      // What is connected to nothing does not run; it adds silence.
      connect.call(recorder, output);
    };
    AudioNode.prototype.connect = function (to, ...rest) {
      if (to instanceof AudioDestinationNode && !(to.context instanceof OfflineAudioContext)) record(this, to);
      return connect.call(this, to, ...rest);
    };
  });
}

/** Takes what was played since the last time, without the silence around it, in base64. `seconds` is its length. */
export const takeRecording = (page) => page.evaluate(inPage, { quiet: 0.005, margin_s: 0.3, longest_s: 29 });

/** Runs in the page, and so uses nothing from outside of it. */
function inPage({ quiet, margin_s, longest_s }) {
  const { rate, parts } = window.played;
  window.played.parts = [];
  const all = parts.flatMap((part) => [...part]);
  const isLoud = (sample) => Math.abs(sample) > quiet;
  const margin = Math.round(margin_s * rate);
  const from = Math.max(0, all.findIndex(isLoud) - margin);
  const samples = all.slice(from, Math.min(all.findLastIndex(isLoud) + margin, from + longest_s * rate));
  const header = 44;
  const wav = new DataView(new ArrayBuffer(header + samples.length * 2));
  const text = (at, letters) => [...letters].forEach((letter, n) => wav.setUint8(at + n, letter.charCodeAt(0)));
  text(0, 'RIFF');
  wav.setUint32(4, wav.byteLength - 8, true);
  text(8, 'WAVEfmt ');
  wav.setUint32(16, 16, true);
  wav.setUint16(20, 1, true);
  wav.setUint16(22, 1, true);
  wav.setUint32(24, rate, true);
  wav.setUint32(28, rate * 2, true);
  wav.setUint16(32, 2, true);
  wav.setUint16(34, 16, true);
  text(36, 'data');
  wav.setUint32(40, samples.length * 2, true);
  samples.forEach((sample, n) => wav.setInt16(header + n * 2, Math.max(-1, Math.min(1, sample)) * 32_767, true));
  return { base64: new Uint8Array(wav.buffer).toBase64(), seconds: samples.length / rate };
}
