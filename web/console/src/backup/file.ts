// A backup during download: the received size, whether it is complete, and its name. Not for requesting or saving it.

/** Maximum length of the end line of a backup, in bytes. */
const LONGEST_END = 65_536;

/** Error of a truncated backup: its end line is missing. */
export class BrokenOff extends Error {
  constructor() {
    super('the backup is truncated');
    this.name = 'BrokenOff';
  }
}

/** Reads a backup and reports the number of bytes received. Throws `BrokenOff` unless it is complete. */
export async function backupOf(response: Response, report: (count: number) => void): Promise<Blob> {
  let count = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      report((count += chunk.byteLength));
      controller.enqueue(chunk);
    },
  });
  const file = response.body && (await new Response(response.body.pipeThrough(counter)).blob().catch(() => null));
  if (!file || !isWhole(await file.slice(-LONGEST_END).text())) throw new BrokenOff();
  return file;
}

/** Returns true if a text, which may lack its start, ends with the end line of a backup: `{"end": {…}}`. */
export function isWhole(text: string): boolean {
  try {
    const last = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { end?: unknown } | null;
    return typeof last?.end === 'object' && last.end !== null;
  } catch {
    return false;
  }
}

/** Returns the file name in a Content-Disposition header: `attachment; filename="hearken-2030-01-31.backup"`. */
export function nameIn(disposition: string | null): string {
  return /filename="([\w.-]+)"/.exec(disposition ?? '')?.[1] ?? 'hearken.backup';
}
