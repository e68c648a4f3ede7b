// The node: requests with the login's cookie, and the live stream, which reconnects.

import { signal } from "@preact/signals";

/** Who is logged in; undefined until it is known, null when nobody is. */
export interface Login { readonly keyName: string; readonly scopes: readonly string[] }
export const login = signal<Login | null | undefined>(undefined);
/** Version, start and readiness, as the node last said. */
export interface NodeState { version: string; started_at: string; now: string; ready: boolean; unready: string | null; scopes: string[]; key_name: string }
export const node = signal<NodeState | undefined>(undefined);

export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string) { super(message); }
}

/** The node of the cluster that the page shows, from the page's address; undefined for the one that answers. */
export const viewed = new URLSearchParams(location.search).get("node") ?? undefined;
/** The path of a request about a node: it names the one that the page shows. */
const about = (path: string) => (viewed !== undefined && /^(node|lab\/(recordings|dark))\b/.test(path) ? `${path}${path.includes("?") ? "&" : "?"}node=${encodeURIComponent(viewed)}` : path);

const HEADERS = { "x-guildhall-dashboard": "1" };
/** A request that takes longer is given up. */
const PATIENCE_MS = 15_000;

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`/dashboard/api/${path}`, { ...init, headers: { ...HEADERS, ...init.headers, ...(init.body ? { "content-type": "application/json" } : {}) }, credentials: "same-origin" });
  } catch (error) {
    if (init.signal?.aborted && error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "The node does not answer. It may be restarting; this page keeps trying.");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => undefined) as { code?: string; message?: string; errors?: { field: string; message: string }[] } | undefined;
  if (response.status === 401 && problem?.code !== "unauthorized") login.value = null;
  throw new Refused(response.status, problem?.code ?? "", faults(problem?.errors) || (problem?.message ?? `The node answered with status ${response.status}.`));
}

/** The faults of a body, each with its field; empty if the answer names none. */
const faults = (errors: { field: string; message: string }[] = []): string => errors.map(({ field, message }) => `${field}: ${message}`).join(" ");

/** A request to `/v1`; the body of its answer. */
export async function ask<T>(path: string, method = "GET", body?: unknown, signal?: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(PATIENCE_MS);
  const init: RequestInit = { method, signal: signal ? AbortSignal.any([signal, timeout]) : timeout };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await send(`v1/${about(path)}`, init);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** A request to `/v1` whose answer is a file, or a part of one. */
export async function askBytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const response = await send(`v1/${about(path)}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  return new Uint8Array(await response.arrayBuffer());
}

export async function logIn(key: string): Promise<void> {
  await send("login", { method: "POST", headers: { authorization: `Bearer ${key}` } });
  await whoAmI();
}

export async function logOut(): Promise<void> {
  await send("logout", { method: "POST" });
  login.value = null;
  node.value = undefined;
}

/** Asks who is logged in. Rejects when the node does not answer. */
export async function whoAmI(): Promise<void> {
  try {
    const state = await ask<NodeState>("node");
    node.value = state;
    login.value = { keyName: state.key_name, scopes: state.scopes };
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    login.value = null;
  }
}

export const may = (scope: string): boolean => login.value?.scopes.includes(scope) ?? false;

/** State of the live stream. */
export type Link = { state: "connecting" } | { state: "live" } | { state: "broken"; since: number; retryAt: number };
export const link = signal<Link>({ state: "connecting" });
/** Time of the newest sample, by the node's clock. */
export const sampledAt = signal(0);

export interface Sample { at_ms: number; values: Record<string, number> }

const RETRY_MS = [1_000, 2_000, 3_000, 5_000];
/** A sample comes every second; a stream that is silent for so long is dead. */
const SILENCE_MS = 20_000;

/** Follows the samples of these series until it is stopped. */
export function follow(series: string, onSample: (sample: Sample) => void, onReconnect: () => void): () => void {
  const stopped = new AbortController();
  void (async () => {
    for (let failures = 0; !stopped.signal.aborted;) {
      const silence = new AbortController();
      let timer = 0;
      const heard = () => { clearTimeout(timer); timer = window.setTimeout(() => silence.abort(), SILENCE_MS); };
      try {
        heard();
        const response = await send(`v1/${about(`node/live?series=${encodeURIComponent(series)}`)}`, { signal: AbortSignal.any([stopped.signal, silence.signal]) });
        const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
        if (failures > 0) onReconnect();
        let text = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          heard();
          if (link.peek().state !== "live") link.value = { state: "live" };
          failures = 0;
          text += value;
          for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
            const event = text.slice(0, end);
            if (!event.startsWith("data: ")) continue;
            const sample = JSON.parse(event.slice(6)) as Sample;
            if (sample.at_ms > 0) {
              sampledAt.value = sample.at_ms;
              onSample(sample);
            }
          }
        }
      } catch (error) {
        if (error instanceof Refused && error.status === 401) return;
      } finally {
        clearTimeout(timer);
      }
      if (stopped.signal.aborted) return;
      const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]!;
      const before = link.peek();
      link.value = { state: "broken", since: before.state === "broken" ? before.since : Date.now(), retryAt: Date.now() + wait };
      await new Promise((resume) => setTimeout(resume, wait));
    }
  })();
  return () => stopped.abort();
}
