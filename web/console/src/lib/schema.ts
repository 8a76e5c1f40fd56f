// Forms for tool arguments, from JSON Schema: the fields, and the arguments for typed values.
import type { JsonSchema } from './types';

export type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json';
export interface Field {
  name: string; kind: Kind; label: string; about: string; required: boolean; choices: unknown[];
  min: number | undefined; max: number | undefined; initial: string;
}

/** Returns the fields of an object schema, required ones first. */
export function fieldsOf(schema: JsonSchema): Field[] {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, of]) => field(name, of, required.has(name)));
  return fields.sort((a, b) => Number(b.required) - Number(a.required));
}

function field(name: string, of: JsonSchema, required: boolean): Field {
  const kind = kindOf(of);
  const initial = of.default === undefined ? '' : kind === 'json' ? JSON.stringify(of.default) : String(of.default);
  return {
    name, kind, required, initial, label: of.title ?? name, about: of.description ?? '', choices: of.enum ?? [],
    min: of.minimum, max: of.maximum,
  };
}

function kindOf(of: JsonSchema): Kind {
  if (of.enum && of.enum.length > 0) return 'choice';
  const types = (Array.isArray(of.type) ? of.type : [of.type]).filter((type) => type !== 'null');
  if (types.length !== 1) return types.length === 0 ? 'text' : 'json';
  const type = types[0];
  if (type === 'number' || type === 'integer' || type === 'boolean') return type;
  return type === 'string' || type === undefined ? 'text' : 'json';
}

export class FieldError extends Error {
  constructor(readonly field: string, readonly reason: 'missing' | 'number' | 'json') {
    super(`${field}: ${reason}`);
  }
}

/** Converts typed values to arguments, without empty fields. Throws a `FieldError`. */
export function argumentsOf(fields: readonly Field[], typed: Record<string, string>): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  for (const one of fields) {
    const text = typed[one.name] ?? '';
    if (text === '' && one.kind !== 'boolean') {
      if (one.required && one.kind !== 'text') throw new FieldError(one.name, 'missing');
      if (one.required) all[one.name] = '';
      continue;
    }
    if (one.kind === 'boolean' && text === '' && !one.required) continue;
    all[one.name] = valueOf(one, text);
  }
  return all;
}

function valueOf(field: Field, text: string): unknown {
  switch (field.kind) {
    case 'number':
    case 'integer': {
      const value = Number(text);
      const fits = Number.isFinite(value) && (field.kind === 'number' || Number.isInteger(value));
      if (!fits) throw new FieldError(field.name, 'number');
      return value;
    }
    case 'boolean':
      return text === 'true';
    case 'choice':
      return field.choices.find((choice) => String(choice) === text) ?? text;
    case 'json':
      try {
        return JSON.parse(text) as unknown;
      } catch {
        throw new FieldError(field.name, 'json');
      }
    default:
      return text;
  }
}
