// How the console is built and tested. What it shows is in `src`; the server embeds `dist`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const server = process.env.HEARKEN_URL ?? 'http://127.0.0.1:9400';
const proxy = Object.fromEntries(
  ['/api', '/readyz', '/healthz', '/metrics'].map((path) => [path, { target: server }]),
);

export default defineConfig({
  // Behind a proxy, the page may stand under any path.
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    sourcemap: false,
    // Nothing is put into a page as a data URL: the policy of the page allows files of its own only.
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    // The licences of the packages that the built files contain, which ask for that.
    license: { fileName: 'licences.md' },
  },
  worker: { format: 'es' },
  server: { proxy: { ...proxy, '/xiaozhi': { target: server, ws: true } } },
  preview: { proxy: { ...proxy, '/xiaozhi': { target: server, ws: true } } },
  test: { include: ['src/**/*.test.ts', '*.test.mjs'], environment: 'node' },
});
