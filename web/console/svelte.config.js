// How components are compiled. Not for how the console is bundled: that is in vite.config.ts.
import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default { preprocess: vitePreprocess(), compilerOptions: { runes: true } };
