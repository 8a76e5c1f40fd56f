// What tests of the services tell together: how long a spoken turn would take, and where to look after a failure. Not for
// running tests.
import type { Service, ServiceTest } from '../lib/types';

/** The services in the order in which they are tested. */
export const SERVICES = ['tts', 'asr', 'llm'] as const satisfies readonly Service[];

/** What a test of all services has told: the estimate in milliseconds, and those that failed. */
export interface Outcome { ms: number | null; failed: Service[] }

/**
 * Returns what tests of all services tell. A turn waits for the whole recognition, then for the first word of the model, then
 * for the first sound of the synthesiser. A service that tells no first moment counts with its whole time.
 */
export function outcomeOf(tests: Partial<Record<Service, ServiceTest>>): Outcome {
  const failed = SERVICES.filter((service) => !tests[service]?.ok);
  const { asr, llm, tts } = tests;
  if (failed.length > 0 || !asr || !llm || !tts) return { ms: null, failed };
  return { ms: asr.total_ms + (llm.first_ms ?? llm.total_ms) + (tts.first_ms ?? tts.total_ms), failed };
}

/** Formats milliseconds as seconds with one decimal, at least 0.1. */
export function seconds(ms: number): string {
  return Math.max(0.1, ms / 1_000).toFixed(1);
}

/** Reads an outcome that this tab keeps as text; null if it is none. */
export function readOutcome(text: string | null): Outcome | null {
  try {
    const kept = JSON.parse(text ?? 'null') as Partial<Outcome> | null;
    if (!kept || !Array.isArray(kept.failed) || !(kept.ms === null || typeof kept.ms === 'number')) return null;
    return { ms: kept.ms, failed: SERVICES.filter((service) => kept.failed?.includes(service)) };
  } catch {
    return null;
  }
}

/** Keys of config.toml that decide whether a service works. */
const KEYS: Record<Service, { address: string; key: string; model: string }> = {
  tts: { address: 'tts.url', key: 'tts.api_key', model: 'tts.model' },
  asr: { address: 'asr.url', key: 'asr.api_key', model: 'asr.model' },
  llm: { address: 'llm.base_url', key: 'llm.api_key', model: 'llm.model' },
};

/** Returns the keys of config.toml to look at after a failure, by the kind of failure that the error names. */
export function keysFor(service: Service, error: string): string[] {
  // The recogniser is given what the synthesiser speaks.
  const failed = service === 'asr' && error.startsWith('the synthesiser') ? 'tts' : service;
  const { address, key, model } = KEYS[failed];
  if (error.includes('not authorised')) return [key];
  if (error.includes('not served')) return [model, address, key];
  if (/unavailable|timed out|cannot be reached|no answer within/.test(error)) return [address];
  return [address, model, key];
}
