// Errors as sentences in the language of the console. Not for the texts: see en-errors.ts and zh-errors.ts.
import { ApiError, faultOf } from '../lib/errors';
import { type Key, language, t } from './index.svelte';
import { zhMessageOf } from './zh-errors';

/** A sentence in the language of the console, and the original message if the sentence does not contain it; else empty. */
export interface ShownError { text: string; detail: string }

const BROWSER = ['NotAllowedError', 'NotFoundError', 'NotReadableError', 'EncodingError', 'SyntaxError'] as const;

/** Returns the sentence for an error. English shows the server's messages as they are. */
export function shownError(error: unknown): ShownError {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ApiError)) return { text: t(browserFault(error)), detail: message };
  const otherwise = t(`fault.${faultOf(error)}`);
  // Without an answer of the server, the message is the browser's or made up.
  if (error.status === 0 || message === `HTTP ${error.status}`) return { text: otherwise, detail: message };
  return ofServer(message, otherwise);
}

/** Returns the sentence for a message of the server outside of a refusal, such as the state of a tool source. */
export function shownMessage(message: string, otherwise: Key): string {
  return joined(ofServer(message, t(otherwise)));
}

/** Returns an error as one text, for places without room for a detail. */
export function errorText(error: unknown): string {
  return joined(shownError(error));
}

function ofServer(message: string, otherwise: string): ShownError {
  if (message === '') return { text: otherwise, detail: '' };
  const text = language.now === 'zh' ? zhMessageOf(message) : message;
  return text === null ? { text: otherwise, detail: message } : { text, detail: '' };
}

function joined({ text, detail }: ShownError): string {
  if (detail === '') return text;
  return language.now === 'zh' ? `${text}（${detail}）` : `${text} (${detail})`;
}

function browserFault(error: unknown): Key {
  const name = error instanceof Error ? BROWSER.find((known) => known === error.name) : undefined;
  return `fault.${name ?? 'browser'}`;
}
