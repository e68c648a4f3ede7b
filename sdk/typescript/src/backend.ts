/** Client of the backend API, `/v1`. */

import type { Event, FieldError, Operations, Problem } from "./generated/backend.js";

export type * from "./generated/backend.js";

/** A request that the node refused, or could not answer. */
export class BackendError extends Error {
  readonly operation: string;
  /** HTTP status; 0: there was no answer. */
  readonly status: number;
  /** For programs: `invalid`, `not_found`, `too_late`, …; `unreachable` without an answer. */
  readonly code: string;
  /** Faults by field. */
  readonly errors: FieldError[];
  /** With `too_late`: the position before the oldest event. */
  readonly oldest: string | undefined;

  constructor(operation: string, status: number, problem: Partial<Problem>) {
    super(`${operation}: ${problem.message ?? `the node answered ${status}`}`);
    this.name = "BackendError";
    this.operation = operation;
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.errors = problem.errors ?? [];
    this.oldest = problem.oldest ?? undefined;
  }
}

export interface BackendOptions {
  /** Address of the node, like `http://127.0.0.1:8080`. */
  url: string;
  /** A key of the backend API. */
  key: string;
  /** Repetitions of a request that the node refuses for now (429, 503), by default 4. */
  retries?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

type Given<Name extends string, T> = {} extends T ? { [name in Name]?: T } : { [name in Name]: T };
type Body<T> = [T] extends [undefined] ? {} : { body: T };

/** What a request takes besides its name. */
export type Input<O extends keyof Operations> = Given<"path", Operations[O]["path"]> &
  Given<"query", Operations[O]["query"]> &
  Body<Operations[O]["body"]> & { signal?: AbortSignal };

/** Which events. */
export interface EventsOptions {
  /** Position after which they begin; "0": the oldest. Left out: events from now on. */
  after?: string;
  types?: string[];
  guild_id?: string;
  channel_id?: string;
  signal?: AbortSignal;
}

type AnyInput = { path?: object; query?: object; body?: unknown; signal?: AbortSignal };

/** Seconds of one long poll. */
const WAIT_S = 30;
const RETRIES = 4;
/** Longest pause before a repetition, milliseconds. */
const PAUSE_MS_MAX = 10_000;

/** Requests to `/v1` of a node, with the types of its OpenAPI document. */
export class Backend {
  readonly #options: BackendOptions;

  constructor(options: BackendOptions) {
    this.#options = options;
  }

  /**
   * Sends a request, like `request("PUT /v1/users/{user_id}", { path: { user_id: "7" }, body: { username: "ana" } })`.
   * It is repeated after 429 and 503 if that is safe: not POST, unless its body has a `key`.
   *
   * @throws BackendError
   */
  async request<O extends keyof Operations>(
    operation: O,
    ...[input]: {} extends Input<O> ? [Input<O>?] : [Input<O>]
  ): Promise<Operations[O]["answer"]> {
    const given: AnyInput = input ?? {};
    const isSafe = !operation.startsWith("POST ") || (given.body as { key?: unknown } | undefined)?.key !== undefined;
    const tries = isSafe ? 1 + (this.#options.retries ?? RETRIES) : 1;
    for (let attempt = 1; ; attempt++) {
      const response = await this.#send(operation, given, attempt >= tries);
      if (response === undefined) {
        await pause(Math.min(2 ** attempt * 100, PAUSE_MS_MAX), given.signal);
      } else if (response.ok) {
        return (response.status === 204 ? undefined : await response.json()) as Operations[O]["answer"];
      } else if (attempt >= tries || (response.status !== 429 && response.status !== 503)) {
        throw await problemOf(operation, response);
      } else {
        const seconds = Number(response.headers.get("retry-after") ?? 1);
        await pause(Math.min(seconds * 1000, PAUSE_MS_MAX), given.signal);
      }
    }
  }

  /**
   * Events in their order, without an end: continue with `after` = `position` of the last one that was handled. A
   * position whose following events were removed ends with a BackendError whose `code` is `too_late`.
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<Event, never> {
    const { after, types, signal, ...filter } = options;
    const base = { ...filter, ...(types === undefined ? {} : { types: types.join(",") }) };
    const page = (query: Operations["GET /v1/events"]["query"]) =>
      this.request("GET /v1/events", signal === undefined ? { query } : { query, signal });
    let next = after ?? (await page({ limit: 1 })).next;
    for (;;) {
      const { events, next: following } = await page({ ...base, after: Number(next), wait_s: WAIT_S });
      yield* events;
      next = following;
    }
  }

  /** Undefined: there was no answer, and the request is worth a repetition. */
  async #send(operation: string, input: AnyInput, isLast: boolean): Promise<Response | undefined> {
    const [method, template] = operation.split(" ") as [string, string];
    const path = Object.entries(input.path ?? {}).reduce(
      (path, [name, value]) => path.replace(`{${name}}`, encodeURIComponent(String(value))),
      template,
    );
    const url = new URL(path, this.#options.url);
    for (const [name, value] of Object.entries(input.query ?? {})) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
    }
    const headers: Record<string, string> = { authorization: `Bearer ${this.#options.key}` };
    const init: RequestInit = { method, headers };
    if (input.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(input.body);
    }
    if (input.signal !== undefined) init.signal = input.signal;
    try {
      return await (this.#options.fetch ?? globalThis.fetch)(url, init);
    } catch (error) {
      if (input.signal?.aborted || isLast) {
        if (input.signal?.aborted) throw error;
        const message = `the node does not answer (${String(error)})`;
        throw new BackendError(operation, 0, { code: "unreachable", message });
      }
      return undefined;
    }
  }
}

async function problemOf(operation: string, response: Response): Promise<BackendError> {
  return new BackendError(operation, response.status, (await response.json().catch(() => ({}))) as Partial<Problem>);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Headers and body of a request that a webhook or the hook before delivery received. */
export interface SignedRequest {
  /** Header `guildhall-timestamp`. */
  timestamp: string;
  /** Header `guildhall-signature`. */
  signature: string;
  /** The body as it came, before it is parsed. */
  body: string;
}

/** Age of a request that is accepted, seconds. */
const AGE_S_MAX = 300;

/** Whether a request was signed with this secret within the last five minutes. */
export async function isSigned(secret: string, request: SignedRequest, nowS = Date.now() / 1000): Promise<boolean> {
  const { timestamp, signature, body } = request;
  if (!(Math.abs(nowS - Number(timestamp)) <= AGE_S_MAX)) return false;
  const hex = /^v1=((?:[0-9a-f]{2}){32})$/.exec(signature)?.[1];
  if (hex === undefined) return false;
  const tag = Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
  const encoder = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await globalThis.crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["verify"]);
  return globalThis.crypto.subtle.verify("HMAC", key, tag, encoder.encode(`${timestamp}.${body}`));
}
