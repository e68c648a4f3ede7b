/**
 * Session: the protocol of one logical link that survives reconnects, without sockets and timers.
 *
 * Doors       `connect`, `stop`, `send`, `drop` from the application; `handleOpen`, `handlePayload`, `handleClose`,
 *             `handleTimeout` from the driver. After each, the driver drains `poll` and waits until `deadline`; after a
 *             dispatch only unless `isQuiet`.
 * Invariants  S1 each dispatch is passed on once and in the order of `seq`; one with an older `seq` is dropped.
 *             S2 a heartbeat without an acknowledgement before the next one ends the connection, not the session.
 *             S3 every wait has a deadline. S4 after `stop`, or a fatal problem, nothing is sent and nothing opened.
 *             (tests `s1` to `s4`)
 * Limits      commands waiting: `sendQueue.ts`. Back-off: `backoffMaxMs`.
 * Spec        docs/protocol/reference.md §1.
 */

import { consequenceOf, type Consequence } from "./closeCodes.js";
import * as opcodes from "./opcodes.js";
import { done, type Problem, type Result } from "./problem.js";
import { COMMANDS_WAITING_MAX, SendQueue } from "./sendQueue.js";

export type SessionState =
  /** Not started. */
  | "idle"
  /** The socket opens; HELLO has not arrived. */
  | "connecting"
  /** IDENTIFY was sent, or waits to be sent. */
  | "identifying"
  /** RESUME was sent; the gateway replays what was missed. */
  | "resuming"
  /** Events arrive, commands are sent. */
  | "ready"
  /** Disconnected; waits for the next attempt. */
  | "waiting"
  /** Ended by the caller or by a fatal problem. */
  | "stopped";

/** What continues a session, also in another process. */
export interface ResumePoint {
  readonly sessionId: string;
  readonly resumeUrl: string;
  readonly seq: number;
}

export interface SessionOptions {
  /** Gateway URL without a query. */
  readonly url: string;
  /** Body of IDENTIFY, without the token. Read for each IDENTIFY. */
  readonly identify: () => { readonly [key: string]: unknown };
  readonly token: () => string;
  /** Continues a session instead of beginning one. */
  readonly resume?: ResumePoint | undefined;
  /** Random number of at least 0 and less than 1. */
  readonly random: () => number;
  /** When IDENTIFY may be sent, at `now` or later. Default: at once. */
  readonly identifyAt?: ((now: number) => number) | undefined;
  /** Time until HELLO. Default 20 s. */
  readonly helloTimeoutMs?: number | undefined;
  /** Time from IDENTIFY or RESUME until READY or RESUMED; a long replay extends it. Default 60 s. */
  readonly readyTimeoutMs?: number | undefined;
  /** Longest wait before the second attempt; doubles with each. Default 1 s. */
  readonly backoffMinMs?: number | undefined;
  /** Longest wait between attempts. Default 60 s. */
  readonly backoffMaxMs?: number | undefined;
}

/** What the driver has to do, or to pass on. */
export type Action =
  | { readonly type: "open"; readonly url: string; readonly isResume: boolean }
  | { readonly type: "send"; readonly op: number; readonly d: unknown }
  | { readonly type: "close"; readonly code: number; readonly reason: string }
  | { readonly type: "state"; readonly from: SessionState; readonly to: SessionState }
  /** READY arrived: a new session. */
  | { readonly type: "began" }
  | { readonly type: "resumed"; readonly replayed: number; readonly downMs: number }
  /** Sequence numbers that never arrived (`after` + 1 to `before` - 1), or one that arrived twice. */
  | { readonly type: "gap"; readonly after: number; readonly before: number }
  /** The session is gone: what was missed since then is not replayed. */
  | { readonly type: "lost"; readonly problem: Problem }
  | { readonly type: "reconnect"; readonly attempt: number; readonly delayMs: number; readonly willResume: boolean; readonly problem: Problem }
  | { readonly type: "latency"; readonly ms: number }
  | { readonly type: "problem"; readonly problem: Problem }
  | { readonly type: "stopped"; readonly problem: Problem };

/** Closing with any code but 1000 and 1001 keeps the session. */
export const CLOSE_KEEPS_SESSION = 4000;
/** The client could not read a message. The node counts it, and a guardrail of an experiment may act on it. */
const CLOSE_UNDECODABLE = 4002;
/** After this long in `ready`, the next reconnect starts with the shortest back-off. */
const STABLE_MS = 10_000;
/** IDENTIFY after op 9 waits a random time of this range. */
const INVALID_SESSION_MIN_MS = 1_000;
const INVALID_SESSION_MAX_MS = 5_000;
/** IDENTIFY after a refused RESUME waits at most this long. */
const RESUME_REFUSED_MAX_MS = 1_000;
/** A reconnect that the gateway asked for waits at most this long. */
const REQUESTED_RECONNECT_MAX_MS = 250;
/** Wait before the reconnect after close code 4008. */
const RATE_LIMITED_MS = 5_000;

interface Timers {
  hello: number | null;
  ready: number | null;
  heartbeat: number | null;
  identify: number | null;
  reconnect: number | null;
}

const noTimers = (): Timers => ({ hello: null, ready: null, heartbeat: null, identify: null, reconnect: null });

export class Session {
  #options: SessionOptions;
  #state: SessionState = "idle";
  #actions: Action[] = [];
  #queue = new SendQueue();
  #timers = noTimers();
  #point: { sessionId: string; resumeUrl: string } | null = null;
  #seq = 0;
  #intervalMs = 0;
  #sentAt: number | null = null;
  #attempt = 0;
  #replayed = 0;
  #downSince: number | null = null;
  #readySince: number | null = null;
  #isOpen = false;
  #isQuiet = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    if (options.resume) {
      this.#point = { sessionId: options.resume.sessionId, resumeUrl: options.resume.resumeUrl };
      this.#seq = options.resume.seq;
    }
  }

  get state(): SessionState {
    return this.#state;
  }

  /** The last sequence number. */
  get seq(): number {
    return this.#seq;
  }

  /** What a RESUME needs; null without a session. */
  get resumePoint(): ResumePoint | null {
    return this.#point && { ...this.#point, seq: this.#seq };
  }

  /** Replayed dispatches are being received: gaps in `seq` are legal. */
  get isReplaying(): boolean {
    return this.#state === "resuming";
  }

  /** When `handleTimeout` has to be called; null: not at all. */
  deadline(now: number): number | null {
    let first: number | null = null;
    for (const at of Object.values(this.#timers) as (number | null)[]) {
      if (at !== null && (first === null || at < first)) first = at;
    }
    if (this.#state === "ready") {
      const at = this.#queue.nextAt(now);
      if (at !== null && (first === null || at < first)) first = at;
    }
    return first;
  }

  poll(): Action | undefined {
    return this.#actions.shift();
  }

  /** Nothing to poll, and the deadline is that of before: so after most dispatches. */
  get isQuiet(): boolean {
    return this.#isQuiet;
  }

  connect(now: number): void {
    if (this.#state !== "idle" && this.#state !== "waiting" && this.#state !== "stopped") return;
    this.#attempt = 0;
    this.#open(now);
  }

  /** Ends the client's side. With `keepSession` the session waits to be resumed by `resumePoint`. */
  stop(now: number, keepSession: boolean): void {
    if (this.#state === "stopped") return;
    const problem: Problem = { kind: "closed", message: "The application closed the client.", advice: "Nothing to do.", isFatal: true };
    if (this.#isOpen) this.#close(keepSession ? CLOSE_KEEPS_SESSION : 1000, "client closed");
    this.#end(now, problem, keepSession);
  }

  /** Breaks the connection and resumes: for tests, and after a change of network. */
  drop(now: number, reason: string): void {
    if (!this.#isOpen) return this.retryNow(now);
    this.#close(CLOSE_KEEPS_SESSION, reason);
    const problem: Problem = { kind: "connection", message: `The client dropped the connection: ${reason}.`, advice: "Nothing to do.", isFatal: false };
    this.#retry(now, problem, 0);
  }

  /** Ends the wait before the next attempt. */
  retryNow(now: number): void {
    if (this.#state === "waiting") this.#timers.reconnect = now;
  }

  /** Sends a command as soon as the session and the rate limit permit. */
  send(now: number, op: number, d: unknown): Result {
    if (this.#state === "stopped") {
      return { ok: false, problem: { kind: "closed", message: "The client is stopped.", advice: "Call `connect` first.", isFatal: false } };
    }
    if (!this.#queue.push({ op, d })) {
      const message = `${COMMANDS_WAITING_MAX} commands wait already.`;
      return { ok: false, problem: { kind: "rateLimit", message, advice: "Send less often, or wait for the event `state` with `ready`.", isFatal: false } };
    }
    this.#flush(now);
    return done;
  }

  /** The socket is open. */
  handleOpen(_now: number): void {}

  /**
   * A payload arrived. `d` is needed for HELLO, op 9 and READY only. Returns true if it is a dispatch that the
   * application has to see.
   */
  handlePayload(now: number, op: number, seq: number | null, name: string | null, d: unknown): boolean {
    this.#isQuiet = false;
    if (!this.#isOpen) return false;
    switch (op) {
      case opcodes.DISPATCH:
        return this.#dispatch(now, seq ?? 0, name ?? "", d);
      case opcodes.HEARTBEAT:
        this.#heartbeat(now);
        return false;
      case opcodes.RECONNECT:
        this.#close(CLOSE_KEEPS_SESSION, "reconnect requested");
        this.#retry(
          now,
          { kind: "reconnect", message: "The gateway asked the client to reconnect.", advice: "Nothing to do.", isFatal: false },
          this.#options.random() * REQUESTED_RECONNECT_MAX_MS,
        );
        return false;
      case opcodes.INVALID_SESSION:
        this.#invalid(now, d === true);
        return false;
      case opcodes.HELLO:
        this.#hello(now, d);
        return false;
      case opcodes.HEARTBEAT_ACK:
        if (this.#sentAt !== null) this.#push({ type: "latency", ms: now - this.#sentAt });
        this.#sentAt = null;
        return false;
      default:
        return false;
    }
  }

  /** The socket closed, or could not be opened (code 1006). */
  handleClose(now: number, code: number, reason: string): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const { consequence, problem } = consequenceOf(code, reason);
    this.#after(now, consequence, problem, code);
  }

  /** A message could not be decoded: what follows cannot be either. */
  handleUndecodable(now: number, message: string): void {
    if (!this.#isOpen) return;
    this.#close(CLOSE_UNDECODABLE, "decode error");
    const problem: Problem = { kind: "codec", message, advice: "Nothing to do: the client reconnects and resumes.", isFatal: false };
    this.#push({ type: "problem", problem });
    this.#retry(now, problem);
  }

  /** The deadline passed. */
  handleTimeout(now: number): void {
    const timers = this.#timers;
    const isDue = (at: number | null): boolean => at !== null && at <= now;
    if (isDue(timers.reconnect)) {
      this.#open(now);
    } else if (isDue(timers.hello) || isDue(timers.ready)) {
      const expected = isDue(timers.hello) ? "HELLO" : "READY or RESUMED";
      this.#close(CLOSE_KEEPS_SESSION, "timeout");
      this.#retry(now, { kind: "timeout", message: `The gateway did not send ${expected} in time.`, advice: "Nothing to do: the client tries again.", isFatal: false });
    } else {
      if (isDue(timers.identify)) {
        timers.identify = null;
        this.#identify(now);
      }
      if (isDue(timers.heartbeat)) this.#beat(now);
    }
    this.#flush(now);
  }

  #push(action: Action): void {
    this.#actions.push(action);
  }

  #become(to: SessionState): void {
    if (this.#state === to) return;
    this.#push({ type: "state", from: this.#state, to });
    this.#state = to;
  }

  #open(now: number): void {
    this.#timers = noTimers();
    this.#timers.hello = now + (this.#options.helloTimeoutMs ?? 20_000);
    this.#sentAt = null;
    this.#isOpen = true;
    this.#queue.connectionOpened();
    this.#become("connecting");
    this.#push({ type: "open", url: this.#point?.resumeUrl ?? this.#options.url, isResume: this.#point !== null });
  }

  #close(code: number, reason: string): void {
    this.#isOpen = false;
    this.#push({ type: "close", code, reason });
  }

  #hello(now: number, d: unknown): void {
    const interval = (d as { heartbeat_interval?: unknown } | null)?.heartbeat_interval;
    if (typeof interval !== "number" || !(interval > 0)) return this.handleUndecodable(now, "HELLO has no heartbeat interval.");
    this.#intervalMs = interval;
    this.#timers.hello = null;
    this.#timers.heartbeat = now + interval * this.#options.random();
    this.#timers.ready = now + (this.#options.readyTimeoutMs ?? 60_000);
    if (this.#point) {
      this.#replayed = 0;
      this.#become("resuming");
      this.#push({ type: "send", op: opcodes.RESUME, d: { token: this.#options.token(), session_id: this.#point.sessionId, seq: this.#seq } });
    } else {
      this.#identifyFrom(now, now);
    }
  }

  /** Sends IDENTIFY at `earliest`, or when the limit of the bot's shards permits. */
  #identifyFrom(now: number, earliest: number): void {
    const at = this.#options.identifyAt?.(earliest) ?? earliest;
    this.#become("identifying");
    if (at <= now) return this.#identify(now);
    this.#timers.identify = at;
    this.#timers.ready = null;
  }

  #identify(now: number): void {
    this.#seq = 0;
    this.#timers.ready = now + (this.#options.readyTimeoutMs ?? 60_000);
    this.#push({ type: "send", op: opcodes.IDENTIFY, d: { token: this.#options.token(), ...this.#options.identify() } });
  }

  #dispatch(now: number, seq: number, name: string, d: unknown): boolean {
    if (name === "READY") {
      const ready = d as { session_id?: unknown; resume_gateway_url?: unknown };
      if (typeof ready?.session_id !== "string") {
        this.handleUndecodable(now, "READY has no session id.");
        return false;
      }
      const url = ready.resume_gateway_url;
      this.#point = { sessionId: ready.session_id, resumeUrl: typeof url === "string" && url ? url : this.#options.url };
      this.#seq = seq;
      this.#isReady(now);
      this.#push({ type: "began" });
      return true;
    }
    if (seq <= this.#seq) {
      this.#push({ type: "gap", after: this.#seq, before: seq });
      return false;
    }
    if (this.#state === "resuming") {
      if (name === "RESUMED") {
        this.#seq = seq;
        this.#isReady(now);
        this.#push({ type: "resumed", replayed: this.#replayed, downMs: this.#downSince === null ? 0 : now - this.#downSince });
        this.#downSince = null;
        return true;
      }
      this.#replayed += 1;
      this.#timers.ready = now + (this.#options.readyTimeoutMs ?? 60_000);
    } else if (seq > this.#seq + 1) {
      this.#push({ type: "gap", after: this.#seq, before: seq });
    } else {
      this.#isQuiet = true;
    }
    this.#seq = seq;
    return true;
  }

  #isReady(now: number): void {
    this.#timers.ready = null;
    this.#timers.identify = null;
    this.#readySince = now;
    this.#become("ready");
    this.#flush(now);
  }

  #flush(now: number): void {
    if (this.#state !== "ready") return;
    for (let command = this.#queue.take(now); command; command = this.#queue.take(now)) {
      this.#push({ type: "send", op: command.op, d: command.d });
    }
  }

  #heartbeat(now: number): void {
    this.#sentAt ??= now;
    this.#push({ type: "send", op: opcodes.HEARTBEAT, d: this.#seq === 0 ? null : this.#seq });
  }

  #beat(now: number): void {
    if (this.#sentAt !== null) {
      this.#close(CLOSE_KEEPS_SESSION, "no heartbeat ACK");
      this.#retry(now, { kind: "zombie", message: "The gateway did not acknowledge a heartbeat.", advice: "Nothing to do: the client reconnects and resumes.", isFatal: false });
      return;
    }
    this.#timers.heartbeat = now + this.#intervalMs;
    this.#heartbeat(now);
  }

  #invalid(now: number, canResume: boolean): void {
    const { random } = this.#options;
    const problem: Problem = { kind: "session", message: "The gateway refused the session (op 9).", advice: "Nothing to do: the client begins a new session.", isFatal: false };
    if (canResume && this.#point) {
      this.#close(CLOSE_KEEPS_SESSION, "invalid session");
      this.#retry(now, problem);
      return;
    }
    const wasResume = this.#point !== null;
    this.#lose(problem);
    const range = INVALID_SESSION_MAX_MS - INVALID_SESSION_MIN_MS;
    const wait = wasResume ? random() * RESUME_REFUSED_MAX_MS : INVALID_SESSION_MIN_MS + random() * range;
    this.#identifyFrom(now, now + wait);
  }

  #lose(problem: Problem): void {
    if (!this.#point) return;
    this.#point = null;
    this.#seq = 0;
    this.#downSince = null;
    this.#queue.clear();
    this.#push({ type: "lost", problem });
  }

  #after(now: number, consequence: Consequence, problem: Problem, code: number): void {
    if (consequence === "stop") {
      this.#end(now, problem, problem.kind === "authentication");
      return;
    }
    if (consequence === "identify") this.#lose(problem);
    if (problem.kind === "payload") this.#push({ type: "problem", problem });
    this.#retry(now, problem, code === 4008 ? RATE_LIMITED_MS : undefined);
  }

  /** Waits, then opens the next connection. The caller has closed the current one. */
  #retry(now: number, problem: Problem, delayMs?: number): void {
    const { random } = this.#options;
    const min = this.#options.backoffMinMs ?? 1_000;
    const max = this.#options.backoffMaxMs ?? 60_000;
    if (this.#readySince !== null && now - this.#readySince >= STABLE_MS) this.#attempt = 0;
    if (this.#readySince !== null) this.#downSince ??= now;
    this.#readySince = null;
    // The first wait is short and fully random, so that clients of a broken node spread; later ones keep half.
    const range = Math.min(max, min * 2 ** this.#attempt);
    const backoff = this.#attempt === 0 ? random() * min : range / 2 + (random() * range) / 2;
    const delay = Math.max(0, delayMs === undefined ? backoff : this.#attempt === 0 ? delayMs : Math.max(delayMs, backoff));
    this.#attempt += 1;
    this.#timers = noTimers();
    this.#timers.reconnect = now + delay;
    this.#become("waiting");
    this.#push({ type: "reconnect", attempt: this.#attempt, delayMs: delay, willResume: this.#point !== null, problem });
  }

  #end(_now: number, problem: Problem, keepSession: boolean): void {
    this.#isOpen = false;
    this.#timers = noTimers();
    this.#queue.clear();
    if (!keepSession) {
      this.#point = null;
      this.#seq = 0;
    }
    this.#readySince = null;
    this.#become("stopped");
    this.#push({ type: "stopped", problem });
  }
}
