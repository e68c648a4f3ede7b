// REST: requests with the token, which wait as `retry_after` requires.

const RETRIES_MAX = 4;
const WAIT_MS_MAX = 10_000;

export class RestError extends Error {
  constructor(readonly status: number, readonly code: number, message: string) { super(message); }
}

let token = "";
let onUnauthorized = (): void => {};

export function authorize(value: string, unauthorized: () => void): void {
  token = value;
  onUnauthorized = unauthorized;
}

/** With `keepalive` the request outlives the page. */
export async function call<T>(method: string, path: string, body?: unknown, keepalive = false): Promise<T> {
  for (let tries = 1; ; tries++) {
    const headers: Record<string, string> = { authorization: token };
    if (body !== undefined && !(body instanceof FormData)) headers["content-type"] = "application/json";
    let response: Response;
    try {
      const sent = body === undefined ? null : body instanceof FormData ? body : JSON.stringify(body);
      response = await fetch(`/api/v10${path}`, { method, headers, body: sent, keepalive });
    } catch {
      throw new RestError(0, 0, "The node cannot be reached. Try again when the connection is back.");
    }
    if (response.status === 204) return undefined as T;
    const text = await response.text();
    let data: { message?: string; code?: number; retry_after?: number; errors?: unknown } = {};
    try { data = JSON.parse(text); } catch { /* A proxy's page; the status says enough. */ }
    if (response.ok) return data as T;
    if ((response.status === 429 || response.status === 503) && tries < RETRIES_MAX) {
      const wait = Math.min((data.retry_after ?? 1) * 1000, WAIT_MS_MAX);
      await new Promise((resume) => setTimeout(resume, wait));
      continue;
    }
    if (response.status === 401) onUnauthorized();
    throw new RestError(response.status, data.code ?? 0, firstFault(data.errors) ?? data.message ?? `The node answered ${response.status}.`);
  }
}

/** The first text in a tree of form errors. */
function firstFault(errors: unknown): string | undefined {
  if (typeof errors !== "object" || errors === null) return undefined;
  const faults = (errors as { _errors?: { message: string }[] })._errors;
  if (faults?.[0]) return faults[0].message;
  for (const inner of Object.values(errors)) {
    const found = firstFault(inner);
    if (found) return found;
  }
  return undefined;
}
