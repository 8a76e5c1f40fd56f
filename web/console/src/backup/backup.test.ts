// Checks which backups are complete, that truncated ones are rejected, and the file name.
import { describe, expect, it } from 'vitest';
import { backupOf, BrokenOff, isWhole, nameIn } from './file';

const HEADER = '{"hearken":"0.1.0"}\n';
const END = '{"end":{"devices":1}}\n';

/** Returns a response with these chunks; with `hasEnd` false, the connection fails after them. */
function answer(pieces: readonly string[], hasEnd = true): Response {
  const left = [...pieces];
  return new Response(new ReadableStream({
    pull(controller) {
      const piece = left.shift();
      if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece));
      else if (hasEnd) controller.close();
      else controller.error(new TypeError('network error'));
    },
  }));
}

describe('a backup', () => {
  it('is complete if its last line is the end line', () => {
    for (const text of [HEADER + END, `cut","x":1}\n${END}`, END.trimEnd(), '{"end":{}}']) expect(isWhole(text), text).toBe(true);
    for (const text of ['', '\n', HEADER, END + HEADER, '{"end":{"dev', '{"end":null}', '{"end":5}', 'null', '5']) expect(isWhole(text), text).toBe(false);
  });

  it('is read completely, and its bytes are counted', async () => {
    const counts: number[] = [];
    const row = `{"devices":{"name":"${'x'.repeat(70_000)}"}}\n`;
    const file = await backupOf(answer([HEADER, row, END]), (count) => counts.push(count));
    expect(await file.text()).toBe(HEADER + row + END);
    expect(counts).toEqual([HEADER.length, HEADER.length + row.length, file.size]);
  });

  it('that is truncated is rejected, with or without an error of the connection', async () => {
    await expect(backupOf(answer([HEADER, '{"devices":'], false), () => undefined)).rejects.toThrow(BrokenOff);
    await expect(backupOf(answer([HEADER, END], false), () => undefined)).rejects.toThrow(BrokenOff);
    await expect(backupOf(answer([HEADER]), () => undefined)).rejects.toThrow(BrokenOff);
    await expect(backupOf(new Response(null, { status: 204 }), () => undefined)).rejects.toThrow(BrokenOff);
  });

  it('has the file name of the response', () => {
    expect(nameIn('attachment; filename="hearken-2030-01-31.backup"')).toBe('hearken-2030-01-31.backup');
    for (const odd of [null, 'attachment', 'attachment; filename="../x"']) expect(nameIn(odd)).toBe('hearken.backup');
  });
});
