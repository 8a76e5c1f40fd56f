// Saves a file from memory as a download. Not for creating it.

/** Delay after which the browser has certainly read the file, in milliseconds. */
const READ_AFTER_MS = 60_000;

export function saveFile(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), READ_AFTER_MS);
}
