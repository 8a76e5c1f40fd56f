// Which fonts the machine gives the page, so that pictures of other fonts are not compared. Not for how the page looks.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const FILE = new URL('compared/fonts.json', import.meta.url);
/** What the style of the page asks for, as fontconfig writes it. */
const ASKED = ['system-ui', 'system-ui:bold', 'sans-serif', 'monospace', 'sans-serif:lang=zh-cn'];

/** Names the SHA-256 of the file behind each font; nothing where fontconfig is missing. */
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

/** Keeps the fonts of this machine as those of the pictures. */
export function keepFonts() {
  const fonts = fontsHere();
  if (!fonts) throw new Error('fc-match tells no fonts: install fontconfig');
  writeFileSync(FILE, `${JSON.stringify(fonts, null, 2)}\n`);
}

/** Why the pictures cannot be compared on this machine; empty where they can. */
export function otherFonts() {
  if (!existsSync(FILE)) return 'there are no pictures yet: run scripts/console compare';
  const fonts = fontsHere();
  if (!fonts) return 'fc-match tells no fonts: install fontconfig';
  const wanted = JSON.parse(readFileSync(FILE, 'utf8'));
  const others = ASKED.filter((pattern) => fonts[pattern] !== wanted[pattern]);
  return others.length > 0 ? `other fonts than those of the pictures: ${others.join(', ')}` : '';
}
