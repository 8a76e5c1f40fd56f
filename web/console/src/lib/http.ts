// Single requests to the server, without stored credentials. Not for the session: see session.svelte.ts.
import { ApiError, refusalOf } from './errors';

/** Path prefix of the server behind a proxy; empty without one. The page is `ROOT/console/`. */
export const ROOT = rootOf(globalThis.location?.href ?? 'http://localhost/console/');

/** Returns the path prefix of the server for a page address, without a trailing slash. */
export function rootOf(page: string): string {
  return new URL('..', page).pathname.replace(/\/$/, '');
}

export interface Sent {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  bearer?: string | null;
  signal?: AbortSignal;
}

/** Sends a request and returns the response with any status. Throws an `ApiError` with the code `OFFLINE` without one. */
export async function send(path: string, sent: Sent = {}): Promise<Response> {
  const headers = new Headers(sent.headers);
  if (sent.bearer) headers.set('Authorization', `Bearer ${sent.bearer}`);
  const init: RequestInit = { method: sent.method ?? 'GET', headers, cache: 'no-store', credentials: 'omit' };
  if (sent.signal) init.signal = sent.signal;
  if (sent.body !== undefined) {
    headers.set('Content-Type', 'application/json');
    init.body = JSON.stringify(sent.body);
  }
  try {
    return await fetch(ROOT + path, init);
  } catch (error) {
    if (sent.signal?.aborted) throw error;
    throw new ApiError(0, 'OFFLINE', error instanceof Error ? error.message : String(error));
  }
}

/** Reads the body of a response as JSON or text. Throws an `ApiError` unless the status is 2xx. */
export async function read<T>(response: Response): Promise<T> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') ?? false;
  const body: unknown = isJson ? parsed(text) : text;
  if (!response.ok) throw refusalOf(response.status, body, response.headers.get('retry-after'));
  return body as T;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Sends a request and reads a 2xx response. */
export async function call<T>(path: string, sent: Sent = {}): Promise<T> {
  return read<T>(await send(path, sent));
}
