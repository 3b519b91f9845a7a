/**
 * Calls of the gateway, typed by its own description. A call that changes something carries the session's CSRF token;
 * what is refused is thrown as ApiError; an answer 401 ends the session for the whole console.
 */
import createClient, { type Middleware } from 'openapi-fetch';

import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** What the gateway refused, in its own words. `status` is 0 when it could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | number | null = null,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

let csrfToken: string | null = null;
let onSessionEnd: () => void = () => undefined;

export function keepCsrfToken(token: string | null): void {
  csrfToken = token;
}

export function whenSessionEnds(listener: () => void): void {
  onSessionEnd = listener;
}

const SIGNING_IN = ['/session', '/setup'];

const manners: Middleware = {
  onRequest({ request }) {
    if (request.method !== 'GET' && csrfToken !== null) request.headers.set('X-CSRF-Token', csrfToken);
    return request;
  },
  async onResponse({ request, response }) {
    if (response.ok) return response;
    if (response.status === 401 && !SIGNING_IN.includes(new URL(request.url).pathname)) onSessionEnd();
    throw await refusal(response);
  },
  onError({ error }) {
    if (error instanceof DOMException && error.name === 'AbortError') return error;
    return new ApiError(0, 'The gateway cannot be reached. It may be restarting: try again in a moment.');
  },
};

export async function refusal(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as Schemas['ErrorBody'];
    return new ApiError(response.status, error.message, error.code, error.param ?? null);
  } catch {
    return new ApiError(response.status, `The gateway answered with status ${response.status}.`);
  }
}

export const client = createClient<paths>({ baseUrl: window.location.origin, credentials: 'same-origin' });
client.use(manners);

/** The body of an answer; what was refused has been thrown before. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}
