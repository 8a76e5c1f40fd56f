// The fonts of this machine, so that pictures with other fonts are not compared. Not for comparing pictures.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const FILE = new URL('compared/fonts.json', import.meta.url);
/** Fonts of the page's style as fontconfig patterns. */
const ASKED = ['system-ui', 'system-ui:bold', 'sans-serif', 'monospace', 'sans-serif:lang=zh-cn'];

/** Returns the SHA-256 of the file of each font; null without fontconfig. */
function fontsHere() {
  const resolve = (pattern) => {
    const file = execFileSync('fc-match', ['--format', '%{file}', pattern], { encoding: 'utf8' });
    return [pattern, createHash('sha256').update(readFileSync(file)).digest('hex')];
  };
  try {
    return Object.fromEntries(ASKED.map(resolve));
  } catch {
    return null;
  }
}

/** Stores the fonts of this machine as those of the pictures. */
export function keepFonts() {
  const fonts = fontsHere();
  if (!fonts) throw new Error('fc-match finds no fonts: install fontconfig');
  writeFileSync(FILE, `${JSON.stringify(fonts, null, 2)}\n`);
}

/** Returns why the pictures cannot be compared on this machine; empty if they can. */
export function otherFonts() {
  if (!existsSync(FILE)) return 'there are no pictures yet: run scripts/console compare';
  const fonts = fontsHere();
  if (!fonts) return 'fc-match finds no fonts: install fontconfig';
  const wanted = JSON.parse(readFileSync(FILE, 'utf8'));
  const others = ASKED.filter((pattern) => fonts[pattern] !== wanted[pattern]);
  return others.length > 0 ? `other fonts than those of the pictures: ${others.join(', ')}` : '';
}
