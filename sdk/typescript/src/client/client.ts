/**
 * Client: drives one `Session` with a socket, timers and codecs, and passes on what happens.
 *
 * Invariants  C1 a message's body is decoded only if the session, the cache, a view or a listener needs it, and once.
 *             C2 a late event of an older socket reaches nothing.
 * Limits      outbound messages: `BOT_MESSAGE_BYTES_MAX`, `USER_MESSAGE_BYTES_MAX`; larger ones are refused.
 */

import { none, type Compression } from "../codec/codec.js";
import type { Decompressor } from "../codec/compression.js";
import { json, utf8Bytes, type Encoding, type Envelope, type Payload } from "../codec/encoding.js";
import { StateCache, type Change } from "../core/cache.js";
import type { RowRange } from "../core/memberList.js";
import * as opcodes from "../core/opcodes.js";
import { done, type Problem, type Result } from "../core/problem.js";
import { Session, type Action, type ResumePoint, type SessionState } from "../core/session.js";
import { Subscriptions, type Subscription } from "../core/subscriptions.js";
import { Emitter } from "../emitter.js";
import type { EventBodies, GuildMembersChunk, RateLimited } from "../generated/protocol.js";
import { openBrowserSocket } from "../transport/browserSocket.js";
import type { OpenSocket, Socket } from "../transport/transport.js";
import { MemberListView } from "./memberListView.js";
import { MemberRequests, type MemberQuery, type MembersFound } from "./memberRequests.js";
import { ReceivedMessage } from "./message.js";
import { systemClock, type Clock, type ClientOptions, type PresenceUpdate } from "./options.js";

const BOT_MESSAGE_BYTES_MAX = 4096;
const USER_MESSAGE_BYTES_MAX = 15_360;
/** Changes of subscriptions within this time are sent together. */
const SUBSCRIPTION_DELAY_MS = 50;
const DEFAULT_CAPABILITIES =
  opcodes.LAZY_USER_NOTES | opcodes.DEDUPE_USER_OBJECTS | opcodes.PASSIVE_GUILD_UPDATE_V2;

/** About a dispatch, beside its body. */
export interface DispatchContext {
  readonly name: string;
  readonly seq: number;
  /** Part of a replay after RESUME. */
  readonly isReplay: boolean;
}

/** Events of the client itself. The events of the gateway are in `EventBodies`, in upper case. */
export interface ClientEvents {
  /** The state of the session changed. */
  state: [change: { readonly from: SessionState; readonly to: SessionState }];
  /** READY: a new session began. */
  began: [];
  /** The session was resumed; `replayed` events arrived again in order. */
  resumed: [info: { readonly replayed: number; readonly downMs: number }];
  /** Sequence numbers between `after` and `before` never arrived; `before` ≤ `after`: one arrived twice and was dropped. */
  gap: [info: { readonly after: number; readonly before: number }];
  /** The session is gone: events since then are lost, a new READY follows. */
  lost: [problem: Problem];
  /** The connection ended; the next attempt follows after `delayMs`. */
  reconnect: [info: { readonly attempt: number; readonly delayMs: number; readonly willResume: boolean; readonly problem: Problem }];
  /** The client gave up, or was closed. */
  stopped: [problem: Problem];
  /** Something to know that does not stop the client. */
  problem: [problem: Problem];
  /** A compression does not work here; the client uses the next one. */
  codecFallback: [info: { readonly from: string; readonly to: string; readonly reason: string }];
  /** Round trip of a heartbeat. */
  latency: [ms: number];
  /** Every message of the gateway, before anything else uses it: bytes, name and sequence number. */
  message: [message: ReceivedMessage];
  /** A message was sent. */
  sent: [info: { readonly op: number; readonly wireBytes: number }];
  /** Every dispatch, after the cache and before the listeners of its name. */
  dispatch: [body: unknown, context: DispatchContext];
  /** An entity of the cache changed. */
  change: [change: Change];
}

/** What a name of `Own` or of `EventBodies` means; `Own` first. */
type BodyOf<Own, K> = K extends keyof Own ? Own[K] : K extends keyof EventBodies ? EventBodies[K] : never;
type AllEvents<Own> = ClientEvents & { [K in keyof EventBodies | keyof Own]: [body: BodyOf<Own, K>, context: DispatchContext] };

/** `emit` of the client's own events: their arguments do not depend on `Own`. */
type Tell = <K extends keyof ClientEvents>(name: K, ...values: ClientEvents[K]) => void;

/** Bytes and messages of the current connection, or of all. */
export interface Traffic {
  messages: number;
  /** Bytes received on the wire; messages whose size the runtime hides count with their raw size. */
  wireBytes: number;
  sentMessages: number;
  sentBytes: number;
}

interface Codec {
  encoding: Encoding;
  compression: Compression;
  create: () => Decompressor;
}

/** `Own` has the events of the backend, by name: `new Client<{ ROUND_STARTED: { round: number } }>(options)`. */
export class Client<Own extends object = {}> extends Emitter<AllEvents<Own>> {
  /** State of guilds, channels, members …; null if the option `cache` is false. */
  readonly cache: StateCache | null;
  readonly traffic: Traffic = { messages: 0, wireBytes: 0, sentMessages: 0, sentBytes: 0 };
  #options: ClientOptions;
  #clock: Clock;
  #session: Session;
  #subscriptions = new Subscriptions();
  #open = new Map<string, number>();
  #views = new Set<MemberListView>();
  #memberRequests: MemberRequests;
  #encoding: Encoding;
  #compressions: readonly Compression[];
  #codec: Codec | null = null;
  #decompressor: Decompressor | null = null;
  #socket: Socket | null = null;
  /** Counts connections: events of an older one are ignored. */
  #connection = 0;
  #sawHello = false;
  #token = "";
  #mayRefreshToken = false;
  #timer: unknown = null;
  #timerAt: number | null = null;
  #subscriptionTimer: unknown = null;
  #isBot: boolean;
  #presence: PresenceUpdate | undefined;
  #isDraining = false;

  constructor(options: ClientOptions) {
    super();
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#isBot = options.intents !== undefined;
    this.#presence = options.presence;
    this.#encoding = options.encoding ?? json;
    this.#compressions = listOf(options.compression);
    this.cache = options.cache === false ? null : new StateCache((change) => (this.emit as Tell)("change", change), options.cache === true ? {} : options.cache);
    this.#memberRequests = new MemberRequests(this.#clock);
    this.#session = new Session({
      url: options.url,
      token: () => this.#token,
      identify: () => this.#identify(),
      random: options.random ?? Math.random,
      identifyAt: options.identifyAt,
      resume: options.resume,
      backoffMinMs: options.backoffMinMs,
      backoffMaxMs: options.backoffMaxMs,
    });
  }

  get state(): SessionState {
    return this.#session.state;
  }

  /** The last sequence number. */
  get seq(): number {
    return this.#session.seq;
  }

  /** What another client needs to continue the session; null without a session. */
  get resumePoint(): ResumePoint | null {
    return this.#session.resumePoint;
  }

  /** Names of the encoding and the compression of the current or next connection. */
  get codec(): { readonly encoding: "json" | "etf"; readonly compression: string } {
    return { encoding: this.#encoding.name, compression: (this.#codec?.compression ?? this.#compressions[0] ?? none).name };
  }

  /** Opens the connection. Everything that follows is an event. */
  connect(): void {
    this.#mayRefreshToken = typeof this.#options.token === "function";
    this.#session.connect(this.#clock.now());
    this.#drain();
  }

  /** Resolves when the session is ready, or with the problem that stopped the client. */
  ready(): Promise<Result> {
    return new Promise((resolve) => {
      if (this.state === "ready") return resolve(done);
      const offState = (this as unknown as Client).on("state", ({ to }) => {
        if (to === "ready") settle(done);
      });
      const offStopped = (this as unknown as Client).on("stopped", (problem) => settle({ ok: false, problem }));
      const settle = (result: Result): void => {
        offState();
        offStopped();
        resolve(result);
      };
    });
  }

  /** Ends the session; with `keepSession`, `resumePoint` continues it within the gateway's resume window. */
  close(options: { readonly keepSession?: boolean } = {}): void {
    this.#session.stop(this.#clock.now(), options.keepSession ?? false);
    this.#drain();
  }

  /** Breaks the connection and resumes: after a change of network, or with other codecs. */
  reconnect(options: { readonly encoding?: Encoding; readonly compression?: Compression | readonly Compression[]; readonly reason?: string } = {}): void {
    if (options.encoding) this.#encoding = options.encoding;
    if (options.compression) this.#compressions = listOf(options.compression);
    if (options.encoding || options.compression) this.#codec = null;
    this.#session.drop(this.#clock.now(), options.reason ?? "the application asked for it");
    this.#drain();
  }

  /** Ends the wait before the next attempt, if there is one: when the network is back. */
  retryNow(): void {
    this.#session.retryNow(this.#clock.now());
    this.#drain();
  }

  /** Sends any command (`Opcode`) as soon as the session and the rate limit permit. */
  send(op: number, d: unknown): Result {
    const bytes = utf8Bytes(JSON.stringify({ op, d }));
    const max = this.#isBot ? BOT_MESSAGE_BYTES_MAX : USER_MESSAGE_BYTES_MAX;
    if (bytes > max) {
      const message = `The command has ${bytes} bytes; the gateway accepts ${max}.`;
      return { ok: false, problem: { kind: "payload", message, advice: "Split the command.", isFatal: false } };
    }
    const result = this.#session.send(this.#clock.now(), op, d);
    this.#drain();
    return result;
  }

  /** Sets the presence, also of later sessions (op 3). */
  setPresence(presence: PresenceUpdate): Result {
    this.#presence = presence;
    if (this.state === "idle") return done;
    return this.send(opcodes.PRESENCE_UPDATE, { since: null, afk: false, activities: [], ...presence });
  }

  /** Joins, changes or leaves (`channelId` null) voice in a guild (op 4). */
  setVoice(guildId: string | null, channelId: string | null, options: { readonly selfMute?: boolean; readonly selfDeaf?: boolean } = {}): Result {
    const d = { guild_id: guildId, channel_id: channelId, self_mute: options.selfMute ?? false, self_deaf: options.selfDeaf ?? false };
    return this.send(opcodes.VOICE_STATE_UPDATE, d);
  }

  /** Members by name prefix, by id, or all (op 8). Collects the chunks. */
  requestMembers(guildId: string, query: MemberQuery): Promise<Result<MembersFound>> {
    return this.#memberRequests.request(guildId, query, (d) => this.send(opcodes.REQUEST_GUILD_MEMBERS, d));
  }

  /** Changes the subscription to a guild (op 37, or `subscriptionOpcode`). Changes within 50 ms are sent together. */
  subscribe(guildId: string, patch: Subscription): void {
    this.#subscriptions.set(guildId, patch);
    this.#subscriptionsChanged();
  }

  /**
   * The user looks at this guild: the session becomes active in it, and everything arrives as it happens. Call the
   * returned function when the user no longer does; then only passive updates arrive. Calls are counted.
   */
  openGuild(guildId: string): () => void {
    this.#open.set(guildId, (this.#open.get(guildId) ?? 0) + 1);
    this.subscribe(guildId, { typing: true, activities: true, threads: true });
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (this.#open.get(guildId) ?? 1) - 1;
      if (left > 0) return void this.#open.set(guildId, left);
      this.#open.delete(guildId);
      this.subscribe(guildId, { typing: false, activities: false, threads: false });
    };
  }

  /** Whether `openGuild` is in effect. */
  isGuildOpen(guildId: string): boolean {
    return this.#open.has(guildId);
  }

  /** The member list of a channel. Rows arrive after `setRanges`. Close the view when it is no longer shown. */
  memberList(guildId: string, channelId: string): MemberListView {
    const view = new MemberListView(guildId, channelId, this.cache, {
      setRanges: (ranges: readonly RowRange[]) => {
        this.#subscriptions.setRanges(guildId, channelId, ranges);
        this.#subscriptionsChanged();
      },
      closed: () => this.#views.delete(view),
    });
    this.#views.add(view);
    return view;
  }

  /** Socket of the runtime; Node's build replaces it. */
  protected get openSocket(): OpenSocket {
    return openBrowserSocket;
  }

  /** A body is decoded for these names only, and for every name while `dispatch` has a listener. */
  #needsBody(name: string): boolean {
    return (
      name === "READY" ||
      this.hasListeners("dispatch") ||
      this.hasListeners(name as keyof AllEvents<Own>) ||
      (this.cache !== null && StateCache.uses(name)) ||
      (name === "GUILD_MEMBERS_CHUNK" && this.#memberRequests.isWaiting) ||
      (name === "RATE_LIMITED" && this.#memberRequests.isWaiting) ||
      (name === "GUILD_MEMBER_LIST_UPDATE" && this.#views.size > 0)
    );
  }

  #identify(): { [key: string]: unknown } {
    const { intents, capabilities, shard, largeThreshold, properties } = this.#options;
    return {
      properties: { os: "web", browser: "guildhall-sdk", device: "guildhall-sdk", ...properties },
      compress: false,
      ...(this.#isBot ? { intents } : { capabilities: capabilities ?? DEFAULT_CAPABILITIES }),
      ...(shard && { shard }),
      ...(largeThreshold !== undefined && { large_threshold: largeThreshold }),
      ...(this.#presence && { presence: { since: null, afk: false, activities: [], ...this.#presence } }),
    };
  }

  #drain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    try {
      for (let action = this.#session.poll(); action; action = this.#session.poll()) this.#act(action);
    } finally {
      this.#isDraining = false;
    }
    this.#schedule();
  }

  #schedule(): void {
    const now = this.#clock.now();
    const at = this.#session.deadline(now);
    if (at === this.#timerAt) return;
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = at === null ? null : this.#clock.setTimeout(() => this.#timeout(), Math.max(0, at - now));
  }

  #timeout(): void {
    this.#timer = null;
    this.#timerAt = null;
    this.#session.handleTimeout(this.#clock.now());
    this.#drain();
  }

  #act(action: Action): void {
    switch (action.type) {
      case "open":
        void this.#openSocket(action.url);
        break;
      case "send":
        this.#write(action.op, action.d);
        break;
      case "close":
        this.#socket?.close(action.code, action.reason);
        this.#disconnect();
        break;
      case "state":
        (this.emit as Tell)("state", { from: action.from, to: action.to });
        break;
      case "began":
        this.#mayRefreshToken = typeof this.#options.token === "function";
        this.#subscriptions.resendAll();
        for (const view of this.#views) view.handleLost();
        this.#subscriptionsChanged();
        (this.emit as Tell)("began");
        break;
      case "resumed":
        this.#mayRefreshToken = typeof this.#options.token === "function";
        this.#subscriptions.resendAll();
        this.#subscriptionsChanged();
        (this.emit as Tell)("resumed", { replayed: action.replayed, downMs: action.downMs });
        break;
      case "gap":
        (this.emit as Tell)("gap", { after: action.after, before: action.before });
        break;
      case "lost":
        this.#memberRequests.failAll(action.problem);
        (this.emit as Tell)("lost", action.problem);
        break;
      case "reconnect":
        this.#disconnect();
        (this.emit as Tell)("reconnect", { attempt: action.attempt, delayMs: action.delayMs, willResume: action.willResume, problem: action.problem });
        break;
      case "latency":
        (this.emit as Tell)("latency", action.ms);
        break;
      case "problem":
        (this.emit as Tell)("problem", action.problem);
        break;
      case "stopped":
        this.#disconnect();
        if (action.problem.kind === "authentication" && this.#mayRefreshToken) {
          this.#mayRefreshToken = false;
          (this.emit as Tell)("problem", { ...action.problem, isFatal: false });
          this.#session.connect(this.#clock.now());
          break;
        }
        this.#memberRequests.failAll(action.problem);
        (this.emit as Tell)("stopped", action.problem);
        break;
    }
  }

  #disconnect(): void {
    this.#connection += 1;
    this.#socket = null;
    this.#decompressor?.free();
    this.#decompressor = null;
  }

  async #openSocket(url: string): Promise<void> {
    this.#connection += 1;
    const connection = this.#connection;
    this.#sawHello = false;
    let codec: Codec;
    try {
      const { token } = this.#options;
      this.#token = typeof token === "string" ? token : await token();
      codec = await this.#prepareCodec();
    } catch (error) {
      if (connection === this.#connection) this.#closed(1006, `preparing the connection failed: ${String(error)}`);
      return;
    }
    if (connection !== this.#connection) return;
    this.#decompressor = codec.create();
    const query = new URLSearchParams({ v: "10", encoding: codec.encoding.name, ...codec.compression.query });
    const open = this.#options.openSocket ?? this.openSocket;
    this.#socket = open(`${url.replace(/[/?]+$/, "")}/?${query.toString()}`, {
      opened: () => {
        if (connection !== this.#connection) return;
        this.#session.handleOpen(this.#clock.now());
        this.#drain();
      },
      message: (data, headerBytes) => {
        if (connection === this.#connection) this.#received(data, headerBytes);
      },
      closed: (code, reason) => {
        if (connection === this.#connection) this.#closed(code, reason);
      },
    });
  }

  /** Prepares the first compression that works. */
  async #prepareCodec(): Promise<Codec> {
    if (this.#codec) return this.#codec;
    const context = { httpUrl: this.#options.httpUrl ?? this.#options.url.replace(/^ws/, "http"), encoding: this.#encoding.name, token: this.#token };
    for (;;) {
      const compression = this.#compressions[0] ?? none;
      try {
        return this.#codec = { encoding: this.#encoding, compression, create: await compression.prepare(context) };
      } catch (error) {
        if (compression === none) throw error;
        this.#fallBack(compression, String(error));
      }
    }
  }

  #fallBack(from: Compression, reason: string): void {
    this.#compressions = this.#compressions.slice(1);
    this.#codec = null;
    (this.emit as Tell)("codecFallback", { from: from.name, to: (this.#compressions[0] ?? none).name, reason });
  }

  #closed(code: number, reason: string): void {
    // The gateway refuses a codec before HELLO.
    if (code === 4002 && !this.#sawHello && this.#codec && this.#codec.compression !== none) this.#fallBack(this.#codec.compression, reason);
    this.#session.handleClose(this.#clock.now(), code, reason);
    this.#drain();
  }

  #undecodable(message: string): void {
    this.#session.handleUndecodable(this.#clock.now(), message);
    this.#drain();
  }

  #received(data: string | Uint8Array, headerBytes: number): void {
    const codec = this.#codec as Codec;
    const { encoding } = codec;
    let raw: string | Uint8Array;
    let head: Envelope | null;
    let payload: Payload | null = null;
    const size = data.length + headerBytes;
    this.traffic.wireBytes += size;
    try {
      const whole = typeof data === "string" ? data : (this.#decompressor as Decompressor).push(data);
      if (!whole) return;
      raw = whole;
      // With a listener for every event the body is needed anyway.
      head = this.hasListeners("dispatch") ? null : encoding.scan(raw);
      if (!head) head = payload = encoding.decode(raw);
    } catch (error) {
      const message = `A message could not be decoded (${encoding.name}, ${codec.compression.name}): ${String(error)}.`;
      if (!this.#sawHello && codec.compression !== none) this.#fallBack(codec.compression, String(error));
      return this.#undecodable(message);
    }
    const { op, seq, name } = head;
    if (op === opcodes.HELLO) this.#sawHello = true;
    const isReplay = this.#session.isReplaying && name !== "RESUMED";
    const body = (): unknown => (payload ??= encoding.decode(raw)).d;

    this.traffic.messages += 1;
    if (this.hasListeners("message")) {
      const wireBytes = this.#socket?.hidesWireBytes ? null : typeof data === "string" ? utf8Bytes(data) + headerBytes : size;
      (this.emit as Tell)("message", new ReceivedMessage({ op, name, seq, isReplay }, raw, wireBytes, encoding, codec.compression.name, body));
    }

    if (op !== opcodes.DISPATCH) {
      this.#session.handlePayload(this.#clock.now(), op, seq, name, op === opcodes.HELLO || op === opcodes.INVALID_SESSION ? body() : null);
      return this.#drain();
    }
    let decoded: unknown;
    const needsBody = name !== null && this.#needsBody(name);
    try {
      if (needsBody) decoded = body();
    } catch (error) {
      return this.#undecodable(`The body of ${name} could not be decoded: ${String(error)}.`);
    }
    const isForUs = this.#session.handlePayload(this.#clock.now(), op, seq, name, decoded);
    const { isQuiet } = this.#session;
    if (isForUs && needsBody) this.#dispatch(name, decoded, { name, seq: seq ?? 0, isReplay });
    if (!isQuiet) this.#drain();
  }

  #dispatch(name: string, body: unknown, context: DispatchContext): void {
    if (name === "READY") this.#isBot = (body as { user?: { bot?: boolean } }).user?.bot ?? this.#isBot;
    // The cache comes last among the parts that read the body: it keeps, and may change, the objects of it.
    if (name === "GUILD_MEMBERS_CHUNK") this.#memberRequests.handleChunk(body as GuildMembersChunk);
    if (name === "RATE_LIMITED") this.#memberRequests.handleRateLimited(body as RateLimited);
    this.cache?.apply(name, body);
    if (name === "GUILD_MEMBER_LIST_UPDATE") for (const view of this.#views) view.handleUpdate(body as EventBodies["GUILD_MEMBER_LIST_UPDATE"]);
    if (name === "GUILD_DELETE" && !(body as { unavailable?: boolean }).unavailable) this.#subscriptions.forget((body as { id: string }).id);
    (this.emit as Tell)("dispatch", body, context);
    if (this.hasListeners(name as keyof EventBodies)) (this.emit as (name: string, ...values: unknown[]) => void).call(this, name, body, context);
  }

  #write(op: number, d: unknown): void {
    const data = (this.#codec?.encoding ?? json).encode({ op, d });
    this.#socket?.send(data);
    const bytes = typeof data === "string" ? utf8Bytes(data) : data.length;
    this.traffic.sentMessages += 1;
    this.traffic.sentBytes += bytes;
    if (this.hasListeners("sent")) (this.emit as Tell)("sent", { op, wireBytes: bytes + (bytes < 126 ? 6 : 8) });
  }

  #subscriptionsChanged(): void {
    if (this.#isBot || this.#subscriptionTimer !== null) return;
    this.#subscriptionTimer = this.#clock.setTimeout(() => {
      this.#subscriptionTimer = null;
      // A later READY or RESUMED sends everything.
      if (this.state !== "ready") return;
      const op = this.#options.subscriptionOpcode ?? opcodes.GUILD_SUBSCRIPTIONS_BULK;
      for (const d of this.#subscriptions.take(op)) this.send(op, d);
    }, SUBSCRIPTION_DELAY_MS);
  }
}

function listOf(compression: ClientOptions["compression"]): readonly Compression[] {
  const list = compression === undefined ? [none] : "prepare" in compression ? [compression] : compression;
  return list.length > 0 ? list : [none];
}
