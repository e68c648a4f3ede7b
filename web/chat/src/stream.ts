// Stream: how the node writes this connection's stream, since when and why, and what that costs it.
//
// Limits   one request when the meter opens and every EVERY_MS while it is open. Without an answer the meter shows none.

import { signal } from "@preact/signals";
import { call } from "./rest.ts";

const EVERY_MS = 5_000;

/** `GET /users/@me/sessions/{session_id}/stream`: `OwnStream` of the crate rest. */
export interface OwnStream { writer: string | null; moved: string | null; since_ms: number | null; memory_bytes: number | null; timed_total: number | null; timed_ns_total: number | null }

export const ownStream = signal<OwnStream | null>(null);
let sessionId = "";

let isFollowed = false;

export function beginSession(id: string): void {
  sessionId = id;
  ownStream.value = null;
  if (isFollowed) void ask();
}

async function ask(): Promise<void> {
  const asked = sessionId;
  if (!asked) return;
  const answer = await call<OwnStream>("GET", `/users/@me/sessions/${encodeURIComponent(asked)}/stream`).catch(() => null);
  if (asked === sessionId) ownStream.value = answer;
}

/** Asks until the returned function is called. */
export function followStream(): () => void {
  isFollowed = true;
  ownStream.value = null;
  void ask();
  const timer = setInterval(() => void ask(), EVERY_MS);
  return () => { clearInterval(timer); isFollowed = false; };
}

const WRITERS: { [writer: string]: string } = {
  "per-connection": "a context of the library, for this connection alone",
  "per-connection, upgraded": "a larger context of the library, for this connection alone",
  "shared-match": "shared-match: one search for all who receive an event",
  prepared: "each message compressed once for all who receive it",
};
const REASONS: { [why: string]: string } = {
  crowd: "its events go to many others too",
  cpu: "contexts took more time than the node gives them",
  memory: "contexts held more memory than the node gives them",
};

export const writerName = (stream: OwnStream): string => (stream.writer === null ? "nothing: it is not compressed" : WRITERS[stream.writer] ?? stream.writer);
export const moveReason = (stream: OwnStream): string => (stream.moved === null ? "" : REASONS[stream.moved] ?? stream.moved);
/** Mean microseconds of a message, of the sample that the node timed; null before the first. */
export const cpuUs = (stream: OwnStream): number | null => (stream.timed_total ? (stream.timed_ns_total ?? 0) / stream.timed_total / 1000 : null);
