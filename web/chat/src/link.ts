// Link: the connection to the gateway, and its story as a person can follow it.

import { signal } from "@preact/signals";
import { Unzlib } from "fflate";

export type Codec = "none" | "zlib-stream" | "zstd-stream";
export type Phase = "off" | "connecting" | "identifying" | "resuming" | "ready" | "waiting" | "refused";

export interface LinkState {
  phase: Phase;
  /** Why the last connection ended, in words. */
  why: string;
  /** When the next attempt begins, `performance.now()`. */
  retryAt: number;
  attempt: number;
}

export interface LogLine { at: number; text: string; kind: "good" | "warn" | "plain" }

/** One message as it came: sizes are those of the WebSocket payload, without its 2 to 10 bytes of frame header. */
export interface Frame { t: string; raw: Uint8Array; wireBytes: number }

export interface LinkHandlers {
  onDispatch(t: string, d: any): void;
  /** A connection begins. `isHidden`: the browser compresses underneath, and the page cannot see to how much. */
  onOpen(codec: Codec, isHidden: boolean): void;
  onFrame(frame: Frame): void;
  onReady(isResumed: boolean): void;
  /** The token was refused. */
  onRefused(why: string): void;
}

const LOG_MAX = 60;
const BACKOFF_MS = [0, 1000, 2000, 4000, 8000, 15_000, 30_000];
const FATAL = new Map([
  [4004, "The token is wrong or has expired."],
  [4010, "The node refused this client."], [4011, "The node refused this client."], [4012, "The node does not speak this protocol version."],
  [4013, "The node refused this client."], [4014, "The node refused this client."], [4015, "This account has too many sessions."],
]);
const REASONS = new Map([
  [1001, "the node ended the connection"], [1006, "the connection broke"], [1012, "the node restarts"],
  [4000, "the node asked for a new connection"], [4008, "too many messages were sent"], [4009, "the session expired"],
]);

export const linkState = signal<LinkState>({ phase: "off", why: "", retryAt: 0, attempt: 0 });
export const linkLog = signal<LogLine[]>([]);
export const latencyMs = signal<number | null>(null);

export function note(text: string, kind: LogLine["kind"] = "plain"): void {
  linkLog.value = [...linkLog.value.slice(-LOG_MAX + 1), { at: Date.now(), text, kind }];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Link {
  #url: string;
  #token: string;
  #handlers: LinkHandlers;
  #codec: Codec;
  #socket: WebSocket | null = null;
  #session = "";
  #resumeUrl = "";
  #seq: number | null = null;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #beatAt = 0;
  #isAcked = true;
  #attempt = 0;
  #lostAt = 0;
  #replayed = 0;
  #isStopped = false;

  constructor(url: string, token: string, codec: Codec, handlers: LinkHandlers) {
    this.#url = url; this.#token = token; this.#codec = codec; this.#handlers = handlers;
  }

  get codec(): Codec { return this.#codec; }

  open(): void {
    clearTimeout(this.#retry);
    this.#set("connecting");
    const base = this.#session ? this.#resumeUrl || this.#url : this.#url;
    const compress = this.#codec === "none" ? "" : `&compress=${this.#codec}`;
    const socket = new WebSocket(`${base}/?v=10&encoding=json${compress}`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    let inflate: Unzlib | null = null, inflated: Uint8Array[] = [];
    if (this.#codec === "zlib-stream") inflate = new Unzlib((chunk) => { inflated.push(chunk); });
    socket.onopen = () => { if (socket === this.#socket) this.#handlers.onOpen(this.#codec, socket.extensions.includes("permessage-deflate")); };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.#socket) return;
      if (typeof data === "string") {
        const raw = encoder.encode(data);
        this.#handle(raw, raw.length, data);
        return;
      }
      if (!inflate) return;
      inflated = [];
      inflate.push(new Uint8Array(data));
      const raw = join(inflated);
      this.#handle(raw, data.byteLength, decoder.decode(raw));
    };
    socket.onclose = ({ code }) => { if (socket === this.#socket) this.#closed(code); };
  }

  send(op: number, d: unknown): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ op, d }));
  }

  /** Breaks the connection as a lost network would; the session is resumed. */
  drop(why: string): void {
    note(why, "warn");
    this.#lostAt = performance.now();
    this.#socket?.close(4000, "dropped by its user");
  }

  /** Reconnects with another codec. The session goes on. */
  switchCodec(codec: Codec): void {
    this.#codec = codec;
    this.drop(`Switching to ${codecName(codec)}`);
  }

  /** The network may be back. */
  retryNow(): void {
    if (linkState.value.phase === "waiting") this.open();
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#heartbeat); clearTimeout(this.#retry);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000);
    this.#set("off");
  }

  #set(phase: Phase, why = linkState.value.why, retryAt = 0): void {
    linkState.value = { phase, why, retryAt, attempt: this.#attempt };
  }

  #handle(raw: Uint8Array, wireBytes: number, text: string): void {
    const { op, d, s, t } = JSON.parse(text) as { op: number; d: any; s: number | null; t: string | null };
    this.#handlers.onFrame({ t: t ?? `op ${op}`, raw, wireBytes });
    switch (op) {
      case 0: this.#dispatch(t ?? "", d, s); break;
      case 1: this.#beat(); break;
      case 7: note("The node asks to reconnect (op 7): it is about to stop", "warn"); this.#lostAt = performance.now(); this.#socket?.close(4000, "reconnect"); break;
      case 9:
        if (!d) this.#session = "";
        note(d ? "The node asks to resume again (op 9)" : "The session is gone (op 9): starting a new one", "warn");
        this.#socket?.close(4000, "op 9");
        break;
      case 10: this.#hello(d.heartbeat_interval); break;
      case 11: this.#isAcked = true; latencyMs.value = performance.now() - this.#beatAt; break;
    }
  }

  #hello(interval: number): void {
    clearInterval(this.#heartbeat);
    this.#isAcked = true;
    this.#heartbeat = setInterval(() => {
      if (!this.#isAcked) return this.drop("No answer to a heartbeat: the connection is dead");
      this.#beat();
    }, interval);
    // The first one at once: it measures the way to the node.
    this.#beat();
    if (this.#session) {
      this.#set("resuming");
      this.#replayed = 0;
      this.send(6, { token: this.#token, session_id: this.#session, seq: this.#seq });
    } else {
      this.#set("identifying");
      this.send(2, { token: this.#token, capabilities: 1 << 14, properties: { os: "web", browser: "Guildhall chat", device: "" } });
    }
  }

  #beat(): void {
    this.#isAcked = false;
    this.#beatAt = performance.now();
    this.send(1, this.#seq);
  }

  #dispatch(t: string, d: any, s: number | null): void {
    this.#seq = s;
    if (t === "READY") {
      this.#session = d.session_id;
      this.#resumeUrl = sameHost(this.#url, d.resume_gateway_url);
    }
    if (t === "RESUMED") {
      const ms = this.#lostAt ? performance.now() - this.#lostAt : 0;
      note(`Resumed after ${seconds(ms)}: ${this.#replayed} missed ${this.#replayed === 1 ? "event" : "events"} replayed, none lost`, "good");
    } else if (linkState.value.phase === "resuming") this.#replayed++;
    this.#handlers.onDispatch(t, d);
    if (t === "READY" || t === "RESUMED") {
      this.#attempt = 0;
      if (t === "READY") note(`New session by ${codecName(this.#codec)}`, "good");
      this.#set("ready", "");
      this.#handlers.onReady(t === "RESUMED");
    }
  }

  #closed(code: number): void {
    clearInterval(this.#heartbeat);
    this.#socket = null;
    if (this.#isStopped) return;
    const fatal = FATAL.get(code);
    if (fatal) {
      this.#set("refused", fatal);
      note(fatal, "warn");
      this.#handlers.onRefused(fatal);
      return;
    }
    if (code === 4007 || code === 4009) this.#session = "";
    if (linkState.value.phase === "ready" || !this.#lostAt) this.#lostAt ||= performance.now();
    if (linkState.value.phase === "ready") this.#lostAt = performance.now();
    const why = `${REASONS.get(code) ?? "the connection ended"} (${code})`;
    const base = BACKOFF_MS[Math.min(this.#attempt, BACKOFF_MS.length - 1)] ?? 0;
    const wait = base * (0.75 + Math.random() * 0.5);
    this.#attempt++;
    if (this.#attempt === 1 || base >= 1000) note(`Connection lost: ${why}. ${wait ? `Trying again in ${seconds(wait)}` : "Reconnecting"}`, "warn");
    this.#set("waiting", why, performance.now() + wait);
    this.#retry = setTimeout(() => this.open(), wait);
  }
}

/** A node names the address that it knows; where the page was opened by another name of the same port, that name goes on. */
function sameHost(own: string, told: string): string {
  const local = new Set(["localhost", "127.0.0.1", "[::1]"]);
  const [a, b] = [new URL(own), new URL(told)];
  return local.has(b.hostname) || a.host === b.host ? own : told;
}

function join(chunks: Uint8Array[]): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) { whole.set(chunk, at); at += chunk.length; }
  return whole;
}

export const seconds = (ms: number): string => (ms < 950 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`);
export const codecName = (codec: Codec): string => (codec === "none" ? "plain JSON" : codec);
