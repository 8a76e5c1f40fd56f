// The outcome of a test of all services: the estimated duration of a spoken turn, and the configuration keys to check
// after a failure. Not for running tests.
import type { Service, ServiceTest } from '../lib/types';

/** Services in test order. */
export const SERVICES = ['tts', 'asr', 'llm'] as const satisfies readonly Service[];

/** Outcome of a test of all services: the estimate in milliseconds, and the failed services. */
export interface Outcome { ms: number | null; failed: Service[] }

/**
 * Returns the outcome of tests of all services. A turn waits for the whole recognition, then for the first word of the
 * model, then for the first audio of the synthesiser. A service without a first result counts with its total time.
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

/** Parses an outcome stored in this tab; null if it is invalid. */
export function readOutcome(text: string | null): Outcome | null {
  try {
    const kept = JSON.parse(text ?? 'null') as Partial<Outcome> | null;
    if (!kept || !Array.isArray(kept.failed) || !(kept.ms === null || typeof kept.ms === 'number')) return null;
    return { ms: kept.ms, failed: SERVICES.filter((service) => kept.failed?.includes(service)) };
  } catch {
    return null;
  }
}

/** Keys of config.toml on which a service depends. */
const KEYS: Record<Service, { address: string; key: string; model: string }> = {
  tts: { address: 'tts.url', key: 'tts.api_key', model: 'tts.model' },
  asr: { address: 'asr.url', key: 'asr.api_key', model: 'asr.model' },
  llm: { address: 'llm.base_url', key: 'llm.api_key', model: 'llm.model' },
};

/** Returns the keys of config.toml to check after a failure, by the kind of error. */
export function keysFor(service: Service, error: string): string[] {
  // The recogniser is tested with the output of the synthesiser.
  const failed = service === 'asr' && error.startsWith('the synthesiser') ? 'tts' : service;
  const { address, key, model } = KEYS[failed];
  if (error.includes('not authorised')) return [key];
  if (error.includes('not served')) return [model, address, key];
  if (/unavailable|timed out|cannot be reached|no answer within/.test(error)) return [address];
  return [address, model, key];
}
