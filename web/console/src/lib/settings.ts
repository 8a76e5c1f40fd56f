// Settings as text that is typed, and back as the values that have changed. Not for which settings there are.

type Sections = Record<string, Record<string, unknown>>;

/** Returns the text of every setting, by its key. */
export function typedOf(settings: Sections): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [section, fields] of Object.entries(settings)) {
    for (const [field, value] of Object.entries(fields)) all[`${section}.${field}`] = textOf(value);
  }
  return all;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns what differs, each value in the type of the old one. What cannot be read is sent as text: the server says why not. */
export function changesOf(settings: Sections, typed: Record<string, string>): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const [section, fields] of Object.entries(settings)) {
    for (const [field, value] of Object.entries(fields)) {
      const key = `${section}.${field}`;
      const text = typed[key];
      if (text === undefined || text === textOf(value)) continue;
      changes[key] = typeof value === 'string' ? text : read(text);
    }
  }
  return changes;
}

/** Returns what was typed into other settings than these, for after the settings are loaded again. */
export function typedBut(keys: string[], typed: Record<string, string>, changes: Record<string, unknown>): Record<string, string> {
  const others = Object.keys(changes).filter((key) => !keys.includes(key));
  return Object.fromEntries(others.map((key) => [key, typed[key] ?? '']));
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
