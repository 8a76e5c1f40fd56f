// Build and test configuration of the console. Sources are in `src`; the server embeds `dist`.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const server = process.env.HEARKEN_URL ?? 'http://127.0.0.1:9400';
const proxy = Object.fromEntries(
  ['/api', '/readyz', '/healthz', '/metrics'].map((path) => [path, { target: server }]),
);

export default defineConfig({
  // Relative: behind a proxy, the page may have any path prefix.
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    sourcemap: false,
    // No data URLs: the content security policy of the page allows only its own files.
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    // The licences of the bundled packages, which require it.
    license: { fileName: 'licences.md' },
  },
  worker: { format: 'es' },
  server: { proxy: { ...proxy, '/xiaozhi': { target: server, ws: true } } },
  preview: { proxy: { ...proxy, '/xiaozhi': { target: server, ws: true } } },
  test: { include: ['src/**/*.test.ts', '*.test.mjs'], environment: 'node' },
});
