// Formats of numbers, times and sizes. Not for texts, which are in the dictionaries.

/** Formats milliseconds: `840 ms`, `1.25 s`, `2 min 5 s`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(ms < 9_995 ? 2 : 1)} s`;
  // Rounded first: 119.6 s is two minutes.
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function bytes(count: number): string {
  if (count < 1_024) return `${count} B`;
  const kib = count / 1_024;
  return kib < 1_024 ? `${kib.toFixed(1)} KiB` : `${(kib / 1_024).toFixed(1)} MiB`;
}

export function number(value: number, tag: string): string {
  return new Intl.NumberFormat(tag).format(value);
}

/** Formats an RFC 3339 time with date and seconds. */
export function moment(text: string | null, tag: string): string {
  if (!text) return '–';
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  return new Intl.DateTimeFormat(tag, { dateStyle: 'medium', timeStyle: 'medium' }).format(at);
}

/** Formats the date of a time, with the day of the week. */
export function day(text: string, tag: string): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  return new Intl.DateTimeFormat(tag, { dateStyle: 'full' }).format(at);
}

export function clock(text: string, tag: string): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  return new Intl.DateTimeFormat(tag, { timeStyle: 'medium' }).format(at);
}

/** Returns the time since a moment as a phrase, such as `2 hours ago`. */
export function ago(text: string | null, now: number, tag: string): string {
  const at = text ? new Date(text).getTime() : Number.NaN;
  if (Number.isNaN(at)) return '–';
  const seconds = Math.round((at - now) / 1_000);
  const relative = new Intl.RelativeTimeFormat(tag, { numeric: 'auto' });
  const units: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86_400], ['hour', 3_600], ['minute', 60]];
  const unit = units.find(([, size]) => Math.abs(seconds) >= size);
  return unit ? relative.format(Math.trunc(seconds / unit[1]), unit[0]) : relative.format(seconds, 'second');
}

/** Sums the samples of a metric (Prometheus text format) whose labels contain all these texts. */
export function metric(text: string, name: string, ...labels: string[]): number {
  let sum = 0;
  for (const line of text.split('\n')) {
    if (!line.startsWith(name)) continue;
    const rest = line.slice(name.length);
    if (!rest.startsWith('{') && !rest.startsWith(' ')) continue;
    if (labels.some((label) => !rest.includes(label))) continue;
    sum += Number(line.slice(line.lastIndexOf(' ') + 1)) || 0;
  }
  return sum;
}
