// What can go wrong with a request, and how a person is helped. Not for sending requests.

/** A request that was refused or did not arrive. `code` is one of the server's fault table, or `OFFLINE`, `LOCKED`. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** Codes for which a remedy is written in the dictionaries, as `remedy.CODE`. */
export const REMEDIES = [
  'OFFLINE', 'LOCKED', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'BAD_REQUEST', 'CONFLICT', 'NOT_CONNECTED', 'BUSY',
  'TOO_MANY', 'RATE_LIMITED', 'UNAVAILABLE', 'TOO_LARGE', 'INTERNAL_ERROR',
] as const;
export type Remedy = (typeof REMEDIES)[number];

/** Returns the code whose remedy fits an error. */
export function remedyOf(error: unknown): Remedy {
  if (!(error instanceof ApiError)) return 'INTERNAL_ERROR';
  const known = REMEDIES.find((code) => code === error.code);
  if (known) return known;
  if (error.status === 404) return 'NOT_FOUND';
  if (error.status === 400 || error.status === 422) return 'BAD_REQUEST';
  if (error.status === 429) return 'BUSY';
  if (error.status === 503) return 'UNAVAILABLE';
  return 'INTERNAL_ERROR';
}

/** Reads the body of a refusal: `{"error": {"code", "message"}}`, or the envelope of museum clients. */
export function refusalOf(status: number, body: unknown, retryAfter: string | null): ApiError {
  const told = (body ?? {}) as { error?: { code?: unknown; message?: unknown }; msg?: unknown; detail?: unknown };
  const text = [told.error?.message, told.detail, told.msg].find((t) => typeof t === 'string');
  const code = typeof told.error?.code === 'string' ? told.error.code : `HTTP_${status}`;
  const seconds = Number.parseInt(retryAfter ?? '', 10);
  const message = typeof text === 'string' ? text : `HTTP ${status}`;
  return new ApiError(status, code, message, Number.isFinite(seconds) ? seconds : null);
}

/** Returns the keys of settings that an error message names in backquotes, such as `llm.model`. */
export function keysNamed(message: string): string[] {
  return [...message.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map((match) => match[1] ?? '');
}
