// A backup as it arrives: how much of it is there, whether it is whole, and its name. Not for asking for one or saving it.

/** The end line of a backup is not longer than this, in bytes. */
const LONGEST_END = 65_536;

/** A backup that broke off: it lacks its end. */
export class BrokenOff extends Error {
  constructor() {
    super('the backup broke off');
    this.name = 'BrokenOff';
  }
}

/** Reads a backup, and tells how many bytes have come. Throws `BrokenOff` unless it is whole. */
export async function backupOf(response: Response, tell: (count: number) => void): Promise<Blob> {
  let count = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      tell((count += chunk.byteLength));
      controller.enqueue(chunk);
    },
  });
  const file = response.body && (await new Response(response.body.pipeThrough(counter)).blob().catch(() => null));
  if (!file || !isWhole(await file.slice(-LONGEST_END).text())) throw new BrokenOff();
  return file;
}

/** Returns true if a text whose begin may be missing ends with the end line of a backup: `{"end": {…}}`. */
export function isWhole(text: string): boolean {
  try {
    const last = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { end?: unknown } | null;
    return typeof last?.end === 'object' && last.end !== null;
  } catch {
    return false;
  }
}

/** Returns the name of the file that a response gives: `attachment; filename="hearken-2030-01-31.backup"`. */
export function nameIn(disposition: string | null): string {
  return /filename="([\w.-]+)"/.exec(disposition ?? '')?.[1] ?? 'hearken.backup';
}
