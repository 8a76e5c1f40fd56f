// Errors of requests: their codes, and which texts of the dictionaries apply. Not for sending requests, nor for the
// texts: see i18n/problem.ts.

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

/** Codes of the server's fault table. */
export const SERVER_FAULTS = [
  'GOING_AWAY', 'IDLE', 'NO_HELLO', 'TOO_LARGE', 'PROTOCOL', 'NOT_TEXT', 'BUSY', 'REPLACED', 'NOT_FOUND', 'BAD_REQUEST',
  'UNAUTHORIZED', 'FORBIDDEN', 'NOT_CONNECTED', 'CONFLICT', 'TOO_MANY', 'RATE_LIMITED', 'LIMIT_REACHED', 'UNAVAILABLE',
  'SESSION_NOT_FOUND', 'VERSION_CONFLICT', 'MAX_ITERATIONS_EXCEEDED', 'INVALID_REQUEST', 'LLM_UNAVAILABLE', 'MCP_SERVER_ERROR',
  'LAGGING', 'INTERNAL_ERROR',
] as const;
/** Codes with a text in the dictionaries, as `fault.CODE`: those of the server, no answer, and a missing credential. */
export const FAULTS = [...SERVER_FAULTS, 'OFFLINE', 'LOCKED'] as const;
export type FaultCode = (typeof FAULTS)[number];

/** Codes for statuses of answers whose code is not in the table. */
const BY_STATUS: Record<number, FaultCode> = {
  400: 'BAD_REQUEST', 401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 408: 'IDLE', 409: 'CONFLICT', 413: 'TOO_LARGE',
  422: 'BAD_REQUEST', 429: 'RATE_LIMITED', 503: 'UNAVAILABLE',
};

/** Returns the code whose text describes an error. */
export function faultOf(error: ApiError): FaultCode {
  return FAULTS.find((code) => code === error.code) ?? BY_STATUS[error.status] ?? 'INTERNAL_ERROR';
}

/** Codes with a remedy in the dictionaries, as `remedy.CODE`. */
export const REMEDIES = [
  'OFFLINE', 'LOCKED', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'BAD_REQUEST', 'CONFLICT', 'NOT_CONNECTED', 'BUSY',
  'TOO_MANY', 'RATE_LIMITED', 'LIMIT_REACHED', 'UNAVAILABLE', 'TOO_LARGE', 'INTERNAL_ERROR',
] as const;
export type Remedy = (typeof REMEDIES)[number];

/** Returns the code whose remedy applies to an error. */
export function remedyOf(error: unknown): Remedy {
  if (!(error instanceof ApiError)) return 'INTERNAL_ERROR';
  const known = REMEDIES.find((code) => code === error.code);
  if (known) return known;
  if (error.status === 404) return 'NOT_FOUND';
  if (error.status === 409) return 'CONFLICT';
  if (error.status === 400 || error.status === 422) return 'BAD_REQUEST';
  if (error.status === 429) return 'BUSY';
  if (error.status === 503) return 'UNAVAILABLE';
  return 'INTERNAL_ERROR';
}

/** Reads the body of a refusal: `{"error": {"code", "message"}}`, or the envelope of museum clients. */
export function refusalOf(status: number, body: unknown, retryAfter: string | null): ApiError {
  const envelope = (body ?? {}) as { error?: { code?: unknown; message?: unknown }; msg?: unknown; detail?: unknown };
  const text = [envelope.error?.message, envelope.detail, envelope.msg].find((t) => typeof t === 'string');
  const code = typeof envelope.error?.code === 'string' ? envelope.error.code : `HTTP_${status}`;
  const seconds = Number.parseInt(retryAfter ?? '', 10);
  const message = typeof text === 'string' ? text : `HTTP ${status}`;
  return new ApiError(status, code, message, Number.isFinite(seconds) ? seconds : null);
}

/** Returns the setting keys that an error message names in backquotes, such as `llm.model`. */
export function keysNamed(message: string): string[] {
  return [...message.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map((match) => match[1] ?? '');
}
