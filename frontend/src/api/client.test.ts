// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ApiError, withQuery, onUnauthenticated, readCookie, request } from './client';

afterEach(() => {
  vi.unstubAllGlobals();
  onUnauthenticated(() => undefined);
});

function answerWith(status: number, body: unknown, headers: Record<string, string> = {}) {
  const fetchMock = vi.fn<(url: string, init: RequestInit) => Promise<Response>>(() =>
    Promise.resolve(new Response(body === undefined ? null : JSON.stringify(body), { status, headers })),
  );
  vi.stubGlobal('fetch', fetchMock);
  return fetchMock;
}

describe('withQuery', () => {
  it('leaves out what is not set', () => {
    expect(withQuery('/api/v1/storages/', { page: 2, search: '', ordering: undefined })).toBe('/api/v1/storages/?page=2');
  });
});

describe('readCookie', () => {
  it('finds one cookie among several', () => {
    expect(readCookie('csrftoken', 'a=1; csrftoken=x%3Dy; b=2')).toBe('x=y');
    expect(readCookie('csrftoken', 'xcsrftoken=1')).toBeNull();
  });
});

describe('request', () => {
  it('sends the CSRF token with writes only', async () => {
    document.cookie = 'csrftoken=secret';
    const fetchMock = answerWith(200, {});
    await request('storages/');
    await request('storages/nfs_01/', { method: 'PATCH', body: { version: 1 } });
    const headers = fetchMock.mock.calls.map(([, init]) => init.headers as Record<string, string>);
    expect(headers[0]).not.toHaveProperty('X-CSRFToken');
    expect(headers[1]).toMatchObject({ 'X-CSRFToken': 'secret', 'Content-Type': 'application/json' });
  });

  it('carries the code, field and request id of a refusal', async () => {
    answerWith(409, { code: 'version_conflict', field: 'version', message: 'changed', request_id: 'r-1' });
    const error = await request('storages/a/').catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 409, code: 'version_conflict', field: 'version', requestId: 'r-1' });
  });

  it('makes sense of an error page that is not JSON', async () => {
    vi.stubGlobal('fetch', () =>
      Promise.resolve(new Response('<h1>Bad gateway</h1>', { status: 502, headers: { 'X-Request-ID': 'r-2' } })),
    );
    await expect(request('overview/')).rejects.toMatchObject({ status: 502, code: 'http_502', requestId: 'r-2' });
  });

  it('reports an unreachable server by a code of its own', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('network')));
    await expect(request('overview/')).rejects.toMatchObject({ status: 0, code: 'unreachable' });
  });

  it('tells about the end of a session, but not about a wrong password', async () => {
    const ended = vi.fn();
    onUnauthenticated(ended);
    answerWith(401, { code: 'unauthenticated', message: 'no', field: null, request_id: 'r' });
    await request('/api/v1/auth/login/', { method: 'POST', body: {} }).catch(() => undefined);
    expect(ended).not.toHaveBeenCalled();
    await request('storages/').catch(() => undefined);
    expect(ended).toHaveBeenCalledOnce();
  });
});
