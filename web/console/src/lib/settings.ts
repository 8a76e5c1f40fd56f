// Settings as editable text, and the changed values to send. Not for the list of settings.

type Sections = Record<string, Record<string, unknown>>;
type Texts = Record<string, string>;

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

/** Returns the changed settings, each in the type of the old value. Unparsable text stays text: the server reports the error. */
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

/** Returns the text of a field after reloading: unsaved input stays, unless it was just sent. */
export function reloaded<T>(typed: T, before: T, sent: T, now: T): T {
  return typed === before || typed === sent ? now : typed;
}

/** Returns the text of the fields of these changes. */
export function sentOf(typed: Texts, changes: Record<string, unknown>): Texts {
  return Object.fromEntries(Object.keys(changes).map((key) => [key, typed[key] ?? '']));
}

/** Returns the text of all settings after reloading. `sent` is the text of the fields that were sent. */
export function allReloaded(typed: Texts, before: Texts, sent: Texts, now: Texts): Texts {
  const field = ([key, text]: [string, string]) => [key, reloaded(typed[key] ?? text, before[key] ?? text, sent[key] ?? before[key] ?? text, text)];
  return Object.fromEntries(Object.entries(now).map(field));
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
