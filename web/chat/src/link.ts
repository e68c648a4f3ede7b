// Link: the SDK's client with the codecs of this page, and the connection's story in words that a person can follow.

import { signal } from "@preact/signals";
import { Capabilities, Client, none, type Problem } from "@guildhall/sdk";
import { zlibStream, zstdStream } from "@guildhall/sdk/codecs";

export type Codec = "none" | "zlib-stream" | "zstd-stream";
export const CODECS: readonly Codec[] = ["zstd-stream", "zlib-stream", "none"];
export type Phase = "off" | "connecting" | "resuming" | "ready" | "waiting";

export interface LinkState {
  phase: Phase;
  /** Why the last connection ended, in words. */
  why: string;
  /** When the next attempt begins, `performance.now()`. */
  retryAt: number;
}

export interface LogLine { at: number; text: string; kind: "good" | "warn" | "plain" }

/** One message as it came. `raw` is a copy; `wireBytes` is null where the browser hides it. */
export interface Frame { name: string; raw: Uint8Array; wireBytes: number | null }

export interface LinkHandlers {
  onDispatch(t: string, d: any): void;
  onFrame(frame: Frame): void;
  /** A connection begins. */
  onOpen(codec: Codec): void;
  /** A session began or was resumed. */
  onReady(): void;
  /** The node refused the session for good. */
  onRefused(why: string): void;
}

const LOG_MAX = 60;

export const linkState = signal<LinkState>({ phase: "off", why: "", retryAt: 0 });
export const linkLog = signal<LogLine[]>([]);
export const latencyMs = signal<number | null>(null);

export function note(text: string, kind: LogLine["kind"] = "plain"): void {
  linkLog.value = [...linkLog.value.slice(-LOG_MAX + 1), { at: Date.now(), text, kind }];
}

const encoder = new TextEncoder();

const compressionOf = (codec: Codec) => (codec === "zstd-stream" ? [zstdStream(), zlibStream(), none] : codec === "zlib-stream" ? [zlibStream(), none] : [none]);

const inWords = (problem: Problem): string => {
  const text = problem.message.replace(/\.$/, "");
  return problem.code && !text.includes(String(problem.code)) ? `${text} (${problem.code})` : text;
};

const MEMBERS_MAX = 20_000;

export class Link {
  readonly client: Client;
  #isPurpose = false;

  constructor(url: string, token: string, codec: Codec, handlers: LinkHandlers) {
    const client = (this.client = new Client({
      url, token, compression: compressionOf(codec), cache: { membersMax: MEMBERS_MAX }, backoffMaxMs: 8_000,
      capabilities: Capabilities.PASSIVE_GUILD_UPDATE_V2 | Capabilities.LAZY_USER_NOTES,
      properties: { os: "web", browser: "Guildhall chat", device: "" },
    }));
    client.on("message", (message) => {
      if (message.op === 10) handlers.onOpen(this.codec);
      const raw = typeof message.raw === "string" ? encoder.encode(message.raw) : message.raw.slice();
      handlers.onFrame({ name: message.name ?? OPS[message.op] ?? `op ${message.op}`, raw, wireBytes: message.wireBytes });
    });
    client.on("dispatch", (body, { name }) => handlers.onDispatch(name, body));
    client.on("state", ({ to }) => {
      if (to === "ready") { this.#set("ready", ""); handlers.onReady(); }
      else if (to === "resuming") this.#set("resuming");
      else if (to === "connecting" || to === "identifying") this.#set("connecting");
    });
    client.on("began", () => note(`New session by ${codecName(this.codec)}`, "good"));
    client.on("resumed", ({ replayed, downMs }) => note(`Resumed by ${codecName(this.codec)} after ${seconds(downMs)}: ${replayed} missed ${replayed === 1 ? "event" : "events"} replayed, none lost`, "good"));
    client.on("gap", ({ after, before }) => note(before > after ? `Events ${after + 1} to ${before - 1} never arrived` : `Event ${before} arrived twice and was dropped`, "warn"));
    client.on("lost", (problem) => note(`The session is gone: ${inWords(problem)}. A new one begins, and everything is read again`, "warn"));
    client.on("reconnect", ({ delayMs, problem, willResume, attempt }) => {
      const why = inWords(problem);
      if (!this.#isPurpose && attempt <= 2) note(`Disconnected: ${why}. ${willResume ? "Resuming" : "A new session begins"} in ${seconds(delayMs)}`, "warn");
      this.#isPurpose = false;
      this.#set("waiting", why, performance.now() + delayMs);
    });
    client.on("codecFallback", ({ from, to, reason }) => note(`${from} does not work here (${reason}): ${to} is used`, "warn"));
    client.on("latency", (ms) => (latencyMs.value = ms));
    client.on("stopped", (problem) => {
      this.#set("off", inWords(problem));
      if (problem.kind !== "closed") handlers.onRefused(`${problem.message} ${problem.advice}`);
    });
  }

  get codec(): Codec { return this.client.codec.compression as Codec; }

  open(): void { this.client.connect(); }
  stop(): void { this.client.close(); }

  /** Breaks the connection as a lost network would; the session is resumed. */
  drop(): void {
    note("The connection was broken on purpose", "warn");
    this.#isPurpose = true;
    this.client.reconnect({ reason: "it was broken on purpose" });
    this.retryNow();
  }

  /** Does not wait any longer: the network may be back, or somebody asked for it. */
  retryNow(): void {
    if (this.client.state === "waiting") this.client.reconnect();
  }

  /** Reconnects with another codec. The session goes on. */
  switchCodec(codec: Codec): void {
    note(`Switching to ${codecName(codec)}`);
    this.#isPurpose = true;
    this.client.reconnect({ compression: compressionOf(codec), reason: `switching to ${codecName(codec)}` });
    this.retryNow();
  }

  #set(phase: Phase, why = linkState.value.why, retryAt = 0): void {
    if (linkState.value.phase !== phase || linkState.value.retryAt !== retryAt) linkState.value = { phase, why, retryAt };
  }
}

const OPS: { [op: number]: string } = { 1: "heartbeat", 7: "reconnect", 9: "invalid session", 10: "hello", 11: "heartbeat ACK" };

export const seconds = (ms: number): string => (ms < 950 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`);
export const codecName = (codec: Codec): string => (codec === "none" ? "plain JSON" : codec);
