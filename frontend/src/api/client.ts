/**
 * The one door to REST. Sends the session cookie and the CSRF token, turns every failure into an
 * `ApiError` with the platform's stable code, and tells `onUnauthenticated` about each 401.
 */

import { endpoint } from './endpoints';
import type { ErrorBody, FieldError } from './types';

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | null;
  readonly requestId: string | null;
  readonly errors: readonly FieldError[];

  constructor(init: {
    status: number;
    code: string;
    message: string;
    field?: string | null;
    requestId?: string | null;
    errors?: readonly FieldError[];
  }) {
    super(init.message);
    this.name = 'ApiError';
    this.status = init.status;
    this.code = init.code;
    this.field = init.field ?? null;
    this.requestId = init.requestId ?? null;
    this.errors = init.errors ?? [];
  }
}

const TIMEOUT_MS = 15_000;
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

let unauthenticatedHandler: () => void = () => undefined;

export function onUnauthenticated(handler: () => void): void {
  unauthenticatedHandler = handler;
}

export function readCookie(name: string, cookies: string = document.cookie): string | null {
  for (const part of cookies.split(';')) {
    const [key, ...rest] = part.trim().split('=');
    if (key === name) return decodeURIComponent(rest.join('='));
  }
  return null;
}

export interface RequestOptions {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  signal?: AbortSignal;
}

export function withQuery(path: string, query: RequestOptions['query'] = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') params.set(key, String(value));
  }
  const text = params.toString();
  return path + (text ? `?${text}` : '');
}

export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options);
  if (!response.ok) {
    const error = await errorFrom(response);
    // A wrong password on the login form is an answer, not the end of a session.
    if (response.status === 401 && path !== endpoint('login')) unauthenticatedHandler();
    throw error;
  }
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

async function send(path: string, options: RequestOptions): Promise<Response> {
  const method = options.method ?? 'GET';
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  if (!SAFE_METHODS.has(method)) headers['X-CSRFToken'] = readCookie('csrftoken') ?? '';
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(withQuery(path, options.query), {
      method,
      headers,
      credentials: 'same-origin',
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
    });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    const timedOut = timeout.aborted;
    throw new ApiError({
      status: 0,
      code: timedOut ? 'timeout' : 'unreachable',
      message: timedOut
        ? `The server did not answer within ${TIMEOUT_MS / 1000} seconds.`
        : 'The server cannot be reached.',
    });
  }
}

async function errorFrom(response: Response): Promise<ApiError> {
  const header = response.headers.get('X-Request-ID');
  try {
    // Something before the platform (a proxy) may answer too, in any shape.
    const body = (await response.json()) as Partial<ErrorBody>;
    return new ApiError({
      status: response.status,
      code: body.code ?? `http_${response.status}`,
      message: body.message ?? fallbackMessage(response.status),
      field: body.field ?? null,
      requestId: body.request_id ?? header,
      errors: body.errors ?? [],
    });
  } catch {
    return new ApiError({
      status: response.status,
      code: `http_${response.status}`,
      message: fallbackMessage(response.status),
      requestId: header,
    });
  }
}

function fallbackMessage(status: number): string {
  if (status === 502 || status === 503 || status === 504) return 'The server is not ready to answer.';
  return `The server answered with status ${status}.`;
}
