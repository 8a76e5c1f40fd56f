// Records a page as a video without sound, with the encoder of another browser page: Playwright's encoder would have to
// be downloaded. Not for controlling the page.
import { chromium } from '@playwright/test';
import config from './playwright.config.mjs';

const FRAMES_PER_SECOND = 10;

/** Starts a video of a page. Returns a function that ends it and returns the WebM file. */
export async function startVideo(page, size) {
  const browser = await chromium.launch({ executablePath: config.use.launchOptions.executablePath, args: ['--no-sandbox'] });
  const encoder = await browser.newPage();
  await encoder.evaluate(record, { ...size, rate: FRAMES_PER_SECOND });
  const onFrame = ({ data }) => encoder.evaluate((jpeg) => window.show(jpeg), data.toString('base64'));
  await page.screencast.start({ onFrame, size, fps: FRAMES_PER_SECOND });
  return async () => {
    await page.screencast.stop();
    const file = await encoder.evaluate(() => window.finish());
    await browser.close();
    return Buffer.from(file, 'base64');
  };
}

/** Runs in the encoder: records a canvas on which the frames are drawn. */
function record({ width, height, rate }) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const pen = canvas.getContext('2d');
  const recorder = new MediaRecorder(canvas.captureStream(rate), { mimeType: 'video/webm;codecs=vp8', videoBitsPerSecond: 2_000_000 });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  window.show = async (jpeg) => {
    const bytes = Uint8Array.fromBase64(jpeg);
    pen.drawImage(await createImageBitmap(new Blob([bytes], { type: 'image/jpeg' })), 0, 0, width, height);
  };
  // Records unchanged pictures too.
  const again = setInterval(() => pen.drawImage(canvas, 0, 0), 1_000 / rate);
  window.finish = async () => {
    clearInterval(again);
    const ended = new Promise((done) => (recorder.onstop = done));
    recorder.stop();
    await ended;
    return new Uint8Array(await new Blob(parts).arrayBuffer()).toBase64();
  };
  recorder.start(1_000);
}
