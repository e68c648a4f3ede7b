// A node that is none: it serves the built pages and invented figures, so that every state of a page can be shown.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8" };
/** As the node sends it. */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const KEY = "ghk_stub";
const COOKIE = "guildhall_dashboard=stub";

const wave = (seconds, mean, swing) => mean + swing * Math.sin(seconds / 17);
const times = (count, ns) => ({ count_total: count, ns_total: count * ns, max_ns: ns * 30, p50_ns: ns, p99_ns: ns * 6, buckets: [] });
const guildId = (index) => String(1_100_000_000_000_000_000n + BigInt(index) * 4_194_304n);
const accountId = (index) => String(1_200_000_000_000_000_000n + BigInt(index) * 4_194_304n);

/** Bytes of `count` frames in each codec. */
const ways = (count, bytes, ratio, zlib) => ({ count_total: count, raw_bytes_total: count * bytes, wire_bytes_total: Math.round(count * bytes * ratio), plain_bytes_total: count * (bytes + 4), zlib_bytes_total: Math.round(count * bytes * ratio * zlib), zstd_bytes_total: Math.round(count * bytes * ratio * 1.05) });
const sumOf = (all) => all.reduce((sum, each) => Object.fromEntries(Object.entries(each).map(([key, value]) => [key, (sum[key] ?? 0) + value])), {});
const bill = (seconds, zlib) => {
  const types = DISPATCHES.map(([name, rate, bytes, ratio]) => ({ name, sample: ways(Math.round(seconds * rate / 10), bytes, ratio, zlib), estimate: ways(Math.round(seconds * rate * 40), bytes, ratio, zlib) }));
  return { one_in: 1_000, sessions: 13, sessions_total: 15, sessions_dropped_total: 1, cpu_ns_total: Math.round(seconds * 6e6), sample: sumOf(types.map(({ sample }) => sample)), estimate: sumOf(types.map(({ estimate }) => estimate)), types, writers: [{ name: "shared-match", sample: sumOf(types.map(({ sample }) => sample)), estimate: sumOf(types.map(({ estimate }) => estimate)) }] };
};
const writers = (seconds) => [["per-connection", 3, 643_072, 40, 14_000], ["per-connection, upgraded", 0, 0, 0, 0], ["shared-match", 57, 2_960, 4_000, 600]].map(([name, sessions, memory, rate, ns]) => ({ name, sessions, memory_bytes: sessions * memory, count_total: Math.round(seconds * rate), raw_bytes_total: Math.round(seconds * rate * 400), wire_bytes_total: Math.round(seconds * rate * 80), timed_total: Math.round(seconds * rate / 64), timed_ns_total: Math.round(seconds * rate / 64) * ns }));
const KINDS = [["create_message", 4, 90_000], ["relay_presence", 30, 9_000], ["start_typing", 8, 5_000], ["relay_attach", 1, 60_000], ["read_members", 1, 700_000]];
const DISPATCHES = [["MESSAGE_CREATE", 120, 780, 0.28], ["PRESENCE_UPDATE", 1400, 310, 0.12], ["TYPING_START", 700, 190, 0.16], ["GUILD_MEMBER_LIST_UPDATE", 60, 1500, 0.2], ["READY", 0.5, 90_000, 0.18], ["control", 80, 40, 1]];

/** Ratio, CPU time of one dispatch and memory of a connection, of the arms of the lab. */
const ARMS = { "zlib": ["level=6,window=15,mem=8", 8.6, 21_000, 270_336], "zstd": ["level=6,window=18,chain=16,hash=16,block=16384", 10.66, 32_000, 643_072], "zstd:level=3": ["level=3,window=18,chain=16,hash=16,block=16384", 8.93, 14_000, 839_680], "zstd-once": ["level=3", 1.75, 9_000, 0] };
const RECORDING = { id: "1790000000", started_at: 0, ended: null, scrubbed: true, private: false, node: null, sessions: 3, sessions_now: 3, sessions_full: 0, dispatches: 120, left_out: 0, bytes: 12_000_000, waiting_bytes: 12_000_000 };
/** An experiment as a node makes it, but for what its creator says. */
const EXPERIMENT = { salt: "s", first_slot: 0, reason: null, reconnected: false, changed_by: "stub", ended_at: null };
/** Mean of the control by metric, with the difference of the other arms and half of its interval, in parts of the mean. */
const METRICS = { wire_bytes: [120, -0.08, 0.03], cpu_ns: [31_000, 0.02, 0.04], wait_ms: [1.4, 0.03, 0.02], delivery_us: [310, 0.01, 0.05], resumes: [0.02, 0.1, 0.6], identifies: [0.01, -0.1, 0.8], decode_faults: [0, 0, 0] };
/** Bytes of one answer with frames. */
const PART = 8 << 20;

/** When a type that has grown did so: longer ago than the range of the charts. */
const GROWN_AGO_S = 1_200;

export class Stub {
  constructor({ guilds = 40, sessions = 60, scopes = ["read", "write", "sessions", "keys", "lab"], isEmpty = false, ghosts = 0, grown = undefined, nodes = [], moves = { leaving: [], ended: [], missing: [] }, kinds = KINDS, quiet = false, sentUntilAgoS = 0, zlib = 1.2 } = {}) {
    Object.assign(this, { kinds, quiet, zlib, sentUntilAgoS, ghosts, grown, nodes, moves, nodesAsked: [], labsAsked: [], guilds: isEmpty ? 0 : guilds, sessions: isEmpty ? 0 : sessions, scopes, isEmpty, closed: new Set(), asked: [], plans: [], dark: undefined, recording: undefined, experiments: [], harm: false, samples: 1_200, isBroken: false, streams: new Set() });
    this.began = Date.now() - 4_000_000;
  }

  static async start(options) {
    const stub = new Stub(options);
    stub.server = createServer((request, response) => stub.answer(request, response)).listen(0, "127.0.0.1");
    await once(stub.server, "listening");
    stub.origin = `http://127.0.0.1:${stub.server.address().port}`;
    return stub;
  }

  /** With a dark launch and an experiment, so that every page has figures. */
  static async busy(options) {
    const stub = await Stub.start(options);
    stub.launch();
    stub.experiment({ name: "zstd-3", layer: "default", permille: 100, arms: [{ name: "control", weight: 1 }, { name: "level-3", weight: 1, arm: "zstd:level=3" }, { name: "shared", weight: 1, policy: "shared-match" }], audience: { platforms: ["web"], bots: false, guild_id: null }, alpha: 0.05, tolerance_percent: 5, samples_min: 200, reconnect_on_rollback: true });
    return stub;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Requests fail and streams end, as while a node restarts. */
  break() {
    this.isBroken = true;
    for (const stream of this.streams) stream.destroy();
  }

  series(seconds) {
    const all = this.all(seconds);
    const sends = !this.quiet && seconds <= Date.now() / 1_000 - this.sentUntilAgoS;
    if (sends) return all;
    // The rest of a mean that fades out, as a node has it: no longer anything, and not quite nothing.
    const rest = (name, value) => (/^sent_(bytes|body_bytes|frame)/.test(name) ? 1e-9 * Math.sin(seconds * 7 + name.length) : value);
    const faded = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, rest(name, value)]));
    return this.quiet ? { ...faded, connections: 0, dispatches: 0.00601, process_resident_memory_bytes: 77.6e6 } : faded;
  }

  all(seconds) {
    if (this.isEmpty) return { connections: 0, dispatches: 0, sent_bytes: 0, process_cpu_seconds: 0.01, process_resident_memory_bytes: 40e6 };
    return {
      connections: 12_840, 'sessions{state="live"}': 12_840, 'sessions{state="resumable"}': 211, dispatches: wave(seconds, 48_200, 9_000), sent_bytes: wave(seconds, 8.2e6, 1e6),
      sent_body_bytes: wave(seconds, 41e6, 6e6), received_bytes: 42_000, "event_to_write_seconds:p50": 0.0008, "event_to_write_seconds:p99": wave(seconds, 0.006, 0.002),
      'loop_busy_seconds{loop="partition",index="0"}': wave(seconds, 0.42, 0.1), 'loop_busy_seconds{loop="guild_worker",index="0"}': 0.18, 'loop_busy_seconds{loop="rest",index="0"}': 109,
      identifies: 2, resumes: wave(seconds, 5, 4), 'connection_closes{by="client",code="1000"}': 2, connections_aborted: 0.6, slow_consumers: 0, process_cpu_seconds: 1.12,
      process_resident_memory_bytes: 812e6, 'compression_slab_bytes{kind="zlib"}': 120e6, 'compression_contexts{kind="zlib"}': 410, shared_match_heap_bytes: 41e6,
      shared_match_messages: 41_000, 'tokens_refused{reason="expired"}': 0.4,
      'sent_frame_compression_seconds{codec="zlib-stream",encoding="json"}': 0.0012, 'sent_frame_compressions_timed{codec="zlib-stream",encoding="json"}': 40,
      relay_ghosts: this.ghosts, 'canary_seconds{members_from="10000"}:p99': wave(seconds, 0.004, 0.001),
      ...Object.fromEntries(DISPATCHES.flatMap(([name, rate, bytes, ratio]) => [
        [`sent_frame_wire_bytes{event="${name}",codec="zlib-stream",encoding="json"}`, wave(seconds, rate * bytes * ratio * 40, rate * 3)],
        [`sent_frames{event="${name}",codec="zlib-stream",encoding="json"}`, rate * 40],
        [`sent_frame_raw_bytes{event="${name}",codec="zlib-stream",encoding="json"}`, rate * 40 * bytes * (name === this.grown && seconds > Date.now() / 1_000 - GROWN_AGO_S ? 2 : 1)],
      ])),
    };
  }

  guild(index, seconds) {
    const per = (rate) => Math.round((seconds * rate) / (index + 1));
    return { id: guildId(index), name: `Guild ${index}`, worker: index % 2, busy_ns_total: per(3e8), handled_total: per(40), events_total: per(30), deliveries_total: per(9_000), bytes_total: per(3e6), members: Math.round(50_000 / (index + 1)), sessions_active: Math.round(3_000 / (index + 1)), sessions_passive: Math.round(9_000 / (index + 1)), relays: 4, mailbox: 0 };
  }

  session(index) {
    return { id: `0${index}c8e1b2d4f60718293a4b5c6d7e8f90`, user_id: accountId(index), username: `calm-heron-${index}`, is_bot: index % 17 === 16, partition: index % 2, shard: null, encoding: index % 5 ? "json" : "etf", codec: index % 11 === 3 ? null : ["zlib-stream", "zstd-stream", "permessage-deflate"][index % 3], platform: ["web", "mobile", "desktop"][index % 3], is_connected: index % 11 !== 3, resumable_ms: index % 11 === 3 ? 90_000 : null, guilds: 3, seq: 1_200 + index, buffered_events: index % 90, buffered_bytes: (index % 90) * 412, backlog_events: index === 5 ? 831 : 0 };
  }

  list() { return Array.from({ length: this.sessions }, (_, index) => this.session(index)).filter(({ id }) => !this.closed.has(id)); }

  /** The report of a path below `/v1/node/`; undefined for one that does not exist. */
  report(path, query) {
    const at_ms = Date.now();
    const seconds = (at_ms - this.began) / 1_000;
    const [, one] = path.split("/").map(decodeURIComponent);
    if (path === "overview") return { at_ms, started_at_ms: this.began, version: "0.0.0", not_ready: null, connections: this.quiet ? { sockets: 1, gateway: 0, sessions_live: 0, sessions_resumable: 0, by_codec: [], by_encoding: [], by_platform: [], active: 0, passive: 0 } : { sockets: 12_900, gateway: 12_840, sessions_live: 12_840, sessions_resumable: 211, by_codec: [{ name: "zlib-stream", value: 8_000 }, { name: "none", value: 4_840 }], by_encoding: [{ name: "json", value: 12_840 }], by_platform: [{ name: "web", value: 12_840 }], active: 9_000, passive: 22_000 }, delivery: times(10, 1_000), loops: this.isEmpty ? [] : [{ name: "guild_worker", index: 0, busy_ns_total: Math.round(seconds * 1.8e8), mailbox: 0, waiting: times(9, 4_000), types: KINDS.map(([name, rate, ns]) => ({ name, times: times(Math.round(seconds * rate), ns) })) }, { name: "rest", index: 0, busy_ns_total: Math.round(seconds * 3e8), mailbox: 0, waiting: times(0, 0), types: [{ name: "POST /api/channels/{channel_id}/messages", times: times(Math.round(seconds * 4), 9_000_000) }] }], memory: { resident_bytes: 812e6, limit_bytes: 4e9, owners: [{ name: "shared_match", bytes: 41e6, elements: 2, is_exact: true }, { name: "sessions", bytes: 90e6, elements: 12_840, is_exact: false }] } };
    if (path === "bandwidth") return { at_ms, types: this.isEmpty ? [] : DISPATCHES.map(([name, rate, bytes, ratio]) => ({ name, ways: [["zlib-stream", "json", 0.6], ["none", "etf", 0.4]].map(([codec, encoding, share]) => ({ codec, encoding, count_total: Math.round(seconds * rate * 40 * share), raw_bytes_total: Math.round(seconds * rate * 40 * bytes * share), wire_bytes_total: Math.round(seconds * rate * 40 * bytes * share * (codec === "none" ? 1 : ratio)), timed_total: 400, timed_ns_total: 3_600_000 })) })), writers: this.isEmpty || this.quiet ? [] : writers(seconds), bill: this.isEmpty || this.quiet ? null : bill(seconds, this.zlib) };
    if (path === "callers") {
      const caller = (id, name, requests, over = 0) => ({ id, name, requests, requests_over: over, busy_ns: requests * 3e6 });
      const lists = { accounts: [caller(accountId(3), "greeter", 120), caller(accountId(4), "", 60, 12)], keys: [caller("0", "root key", 28_200)], addresses: [caller("192.0.2.7", "", 28_200), caller("2001:db8::/64", "", 180)] };
      return { at_ms, window_s: 60, requests: this.quiet ? 0 : 28_380, busy_ns: this.quiet ? 0 : 28_380 * 3e6, ...(this.quiet ? { accounts: [], keys: [], addresses: [] } : lists) };
    }
    if (path === "files") return { at_ms, bytes: 61e6, bytes_max: 100e6, pictures_bytes: 1e6, attachments_bytes_max: 80e6, guild_bytes_max: 50e6, account_day_bytes_max: 10e6, guilds: [{ id: guildId(0), name: "Guild 0", files: 212, bytes: 45e6 }, { id: guildId(1), name: "", files: 1, bytes: 15e6 }], uploaders: [{ id: accountId(3), name: "greeter", day_bytes: 9e6 }] };
    if (path === "guilds") return { at_ms, loaded: this.guilds, guilds: Array.from({ length: Math.min(this.guilds, Number(query.get("limit"))) }, (_, index) => this.guild(index, seconds)) };
    if (path.startsWith("guilds/")) {
      const index = Array.from({ length: this.guilds }, (_, each) => each).find((each) => guildId(each) === one);
      return index === undefined ? undefined : { at_ms, guild: this.guild(index, seconds), types: this.kinds.map(([name, rate, ns]) => ({ name, times: times(Math.round(seconds * rate), ns) })), relays: [0, 1].map((partition) => ({ partition, index: 0, active: 700, passive: 2_200, deliveries_total: Math.round(seconds * 2_000), bytes_total: Math.round(seconds * 7e5) })), channels: [{ id: "1100000000000000001", name: "general", kind: "text", events_total: 4_123 }, { id: "1100000000000000002", name: "general", kind: "voice", events_total: 311 }, { id: "1100000000000000003", name: "", kind: "private_thread", events_total: 40 }, { id: "1100000000000000004", name: "", kind: "", events_total: 2 }] };
    }
    if (path === "sessions") {
      const sessions = this.list().filter(({ user_id }) => !query.has("user_id") || user_id === query.get("user_id"));
      return { at_ms, all: this.sessions, is_partial: false, sessions };
    }
    if (path.startsWith("sessions/")) {
      const session = this.list().find(({ id }) => id === one);
      return session && { at_ms, session, intents: 33_281, capabilities: 0, writer: session.codec && "shared-match", stream: session.codec && { moved: "crowd", since_ms: 95_000, memory_bytes: 2_960, timed_total: 12, timed_ns_total: 30_000 }, billed: session.codec && { count_total: 800, raw_bytes_total: 400_000, wire_bytes_total: 90_000, plain_bytes_total: 403_000, zlib_bytes_total: 75_000, zstd_bytes_total: 60_000 }, window_bytes: null, raw_bytes_total: Math.round(seconds * 8_000), wire_bytes_total: Math.round(seconds * 1_700), blocked_ms: session.backlog_events ? 4_100 : null, silent_ms: 12_000, subscriptions: [0, 1, 2].map((index) => ({ guild_id: guildId(index), name: index === 2 ? "" : `Guild ${index}`, is_active: index === 0, membership: "inside" })), log: Array.from({ length: 100 }, (_, index) => ({ seq: session.seq - index, name: DISPATCHES[index % 4][0], bytes: 100 + index, is_written: index > 3 })) };
    }
    if (path === "compression") return { at_ms, streams: "shared-match", contexts: [{ kind: "zlib", used: 410, slot_bytes: 293_000, resident_bytes: 120e6, opened_total: 900, refused_total: 4 }], bytes_max: 600e6, stored_total: 0, upgrades: { standing: "room", explanation: "There is room.", share_permille: 250, granted_total: 31, denied_total: 1, reclaimed_total: 0 }, shared_match: { heap_bytes: 41e6, texts_total: 1, parses_total: Math.round(seconds * 300), written_total: Math.round(seconds * 41_000), fallbacks_total: Math.round(seconds * 900), late_total: Math.round(seconds * 120), alone_total: 9, checked_total: 4_100, mismatches_total: 0 }, context_moves: { crowd_total: 0, cpu_total: 0, memory_total: 0 }, deflate_shared_bodies_total: 31_000 };
    if (path === "operations") return { at_ms, settings: [{ name: "server.listen", value: '"0.0.0.0:8080"', origin: "guildhall.toml:2", is_live: false }, { name: "log.level", value: '"info"', origin: "default", is_live: true }, { name: "uploads.mode", value: '"on"', origin: "default", is_live: false }], is_draining: false, refused: this.isEmpty ? [] : [{ what: "token", reason: "expired", count_total: 812 }], slow_consumers_total: 0, warnings: this.isEmpty ? [] : [{ at_ms: at_ms - 4_000, level: "warn", target: "guildhall::disk", text: "newest messages could not be read" }] };
    return undefined;
  }

  /** Starts a dark launch of four arms, some minutes ago. */
  launch() {
    this.dark = { plan: { arms: Object.keys(ARMS), cpu_permille: 10 }, started_at: Math.round(Date.now() / 1_000) - 400, state: "running", left: { busy: 0, memory: 0 } };
  }

  /** The figures of the dark launch after `seconds`. */
  darkBody(seconds) {
    const { plan, started_at, state, left } = this.dark;
    const types = DISPATCHES.slice(0, 4).map(([name, rate, plain]) => ({ name, count: Math.round(rate * (seconds + 1)), plain }));
    const arms = plan.arms.map((text) => {
      const [parameters, ratio, ns, connection_bytes] = ARMS[text];
      const sums = types.map(({ name, count, plain }, index) => ({ name, count, plain_bytes: count * plain, wire_bytes: Math.round(count * plain * (1 + index / 4) / ratio), cpu_ns: count * ns }));
      const total = sumOf(sums.map(({ name: _, ...sum }) => sum));
      return { arm: `${text.split(":")[0]}:${parameters}`, connection_bytes, total, types: sums };
    });
    return { state, started_at, sessions: 8, sessions_now: Math.max(0, 8 - left.busy - left.memory), sessions_busy: left.busy, sessions_memory: left.memory, memory_bytes: 13_400_000, cpu_permille: plan.cpu_permille, cpu_ns: Math.round(seconds * 6e6), arms };
  }

  /** Answers below `/v1/lab/`. */
  async lab(path, request, query, json, response) {
    const missing = () => json({ code: "not_found", message: "There is no such thing." }, 404);
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = text ? JSON.parse(text) : undefined;
    if (body) this.plans.push(body);
    const now = Date.now() / 1_000;
    if (path === "dark" && request.method === "POST") {
      const unknown = body.arms.find((arm) => !ARMS[arm]);
      if (unknown !== undefined) return json({ code: "invalid", message: "Some fields are invalid: see `errors`.", errors: [{ field: "arms", message: `There is no codec "${unknown}".` }] }, 400);
      this.dark = { plan: body, started_at: Math.round(now), state: "running", left: { busy: 0, memory: 0 } };
      return json(this.darkBody(0), 201);
    }
    if (path === "dark") {
      if (!this.dark) return missing();
      if (request.method === "GET") return json(this.darkBody(now - this.dark.started_at));
      if (this.dark.state === "running") this.dark.state = "stopped";
      else this.dark = undefined;
      return json(undefined, 204);
    }
    if (path === "recordings" && request.method === "POST") {
      this.recording = { ...RECORDING, started_at: Math.round(now), scrubbed: body.scrub, private: body.private };
      return json(this.recording, 201);
    }
    if (path === "recordings") return json(this.recording ? [this.recording] : []);
    if (!this.recording) return missing();
    if (request.method === "DELETE") {
      if (this.recording.ended === null) this.recording.ended = "stopped";
      else this.recording = undefined;
      return json(undefined, 204);
    }
    const from = Number(query.get("from"));
    this.recording.waiting_bytes = this.recording.bytes - from;
    response.writeHead(200, { "content-type": "application/zstd" });
    response.end(Buffer.alloc(Math.min(PART, this.recording.bytes - from), from === 0 ? 1 : 2));
  }

  /** Creates an experiment, as by a request. */
  experiment(plan) {
    const now = Math.round(Date.now() / 1_000);
    const made = { ...EXPERIMENT, ...plan, arms: plan.arms, state: plan.draft ? "draft" : "running", created_at: now, started_at: plan.draft ? null : now };
    this.experiments.push(made);
    return made;
  }

  /** Answers below `/v1/experiments`. */
  async experimentsAt(name, rest, request, json) {
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = text ? JSON.parse(text) : undefined;
    if (body) this.plans.push(body);
    if (!name && request.method === "POST") {
      if (this.experiments.some((each) => each.name === body.name)) return json({ code: "conflict", message: `There is an experiment ${body.name}: choose another name, or remove it.` }, 409);
      return json(this.experiment(body), 201);
    }
    if (!name) return json(this.experiments);
    const found = this.experiments.find((each) => each.name === name);
    if (!found) return json({ code: "not_found", message: "There is no such experiment." }, 404);
    if (request.method === "DELETE") {
      this.experiments = this.experiments.filter((each) => each !== found);
      return json(undefined, 204);
    }
    if (rest === "stop") Object.assign(found, { state: "stopped", reconnected: body.reconnect, ended_at: Math.round(Date.now() / 1_000) });
    else if (request.method === "PATCH") Object.assign(found, body.start ? { state: "running", started_at: Math.round(Date.now() / 1_000) } : { permille: body.permille });
    if (rest !== "report") return json(found);
    const isKnown = this.samples >= found.samples_min;
    const arms = found.arms.map((arm, index) => ({ name: arm.name, connections: this.samples + index, metrics: Object.entries(METRICS).map(([metric, [mean, part, half]]) => {
      const is_worse = this.harm && metric === "wire_bytes" && index > 0;
      const difference = mean * (is_worse ? 0.9 : part);
      const comparison = index > 0 && isKnown && found.state !== "draft" ? { difference, low: difference - mean * half, high: difference + mean * half, is_worse } : null;
      return { name: metric, samples: this.samples, mean: mean + (index > 0 ? difference : 0), comparison };
    }) }));
    return json({ name: found.name, state: found.state, reason: found.reason, nodes: 1, samples_dropped: 0, arms });
  }

  answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, "http://stub");
    if (this.isBroken) return void request.socket.destroy();
    const json = (body, status = 200, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(body === undefined ? "" : JSON.stringify(body));
    };
    if (!pathname.startsWith("/dashboard/api/")) {
      const name = pathname === "/dashboard/" ? "/index.html" : pathname.slice("/dashboard".length);
      if (name.includes("..") || !TYPES[extname(name)]) return json({}, 404);
      response.writeHead(200, { "content-type": TYPES[extname(name)], "content-security-policy": POLICY });
      return void response.end(readFileSync(DIST + name));
    }
    const path = pathname.slice("/dashboard/api/".length);
    if (request.headers["x-guildhall-dashboard"] === undefined) return json({ code: "foreign", message: "This lacks the header." }, 403);
    if (path === "login") {
      return request.headers.authorization === `Bearer ${KEY}` ? json(undefined, 201, { "set-cookie": `${COOKIE}; Path=/dashboard/; HttpOnly; SameSite=Strict` }) : json({ code: "unauthorized", message: "This key is not valid here." }, 401);
    }
    if (path === "logout") return json(undefined, 204, { "set-cookie": "guildhall_dashboard=; Path=/dashboard/; Max-Age=0" });
    if (!request.headers.cookie?.includes(COOKIE)) return json({ code: "logged_out", message: "You are logged out: log in again." }, 401);
    this.asked.push(`${request.method} ${path}`);
    if (path === "v1/node" || path.startsWith("v1/node/")) this.nodesAsked.push(searchParams.get("node"));
    if (path.startsWith("v1/lab/")) this.labsAsked.push(searchParams.get("node"));
    const now = Date.now();
    const wanted = searchParams.get("series")?.split(",");
    const isWanted = ([name]) => !wanted || wanted.some((prefix) => name.startsWith(prefix));
    if (path === "v1/node") return json({ version: "0.0.0", started_at: new Date(this.began).toISOString(), now: new Date(now).toISOString(), ready: true, unready: null, scopes: this.scopes, key_name: "stub" });
    if (path === "v1/cluster") return json({ nodes: this.nodes, clustered: this.nodes.length > 0, serving: true, guilds: 0, requests_elsewhere: 0 });
    // How long ago a move ended stays what the test says, however slow the machine is.
    if (path === "v1/cluster/moves") return json({ ...this.moves, ended: this.moves.ended.map(({ ended_ago_ms, ...move }) => ({ ...move, ended_at_ms: now - ended_ago_ms })) });
    if (path === "v1/node/history") {
      const window = Number(searchParams.get("window_s"));
      const step = window > 600 ? 10 : 1;
      const at_ms = Array.from({ length: window / step }, (_, index) => now - (window / step - 1 - index) * step * 1_000);
      const series = {};
      for (const at of at_ms) for (const [name, value] of Object.entries(this.series(at / 1_000)).filter(isWanted)) (series[name] ??= []).push(value);
      return json({ step_s: step, at_ms, series });
    }
    if (path === "v1/node/live") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = () => response.write(`data: ${JSON.stringify({ at_ms: Date.now(), values: Object.fromEntries(Object.entries(this.series(Date.now() / 1_000)).filter(isWanted)) })}\n\n`);
      send();
      const timer = setInterval(send, 1_000);
      this.streams.add(request.socket);
      return void response.on("close", () => { clearInterval(timer); this.streams.delete(request.socket); });
    }
    if (/^v1\/node\/(sessions|callers)/.test(path) && !this.scopes.includes("sessions")) return json({ code: "missing_scope", message: "This needs a key with the scope `sessions`." }, 403);
    if (path.startsWith("v1/node/") && request.method === "GET") {
      const report = this.report(path.slice("v1/node/".length), searchParams);
      return report ? json(report) : json({ code: "not_found", message: "There is no such session." }, 404);
    }
    if (path === "v1/node/reload") return json({ applied: ["log.level"], need_restart: [] });
    if (path.startsWith("v1/sessions/") && request.method === "DELETE") {
      this.closed.add(decodeURIComponent(path.slice("v1/sessions/".length)));
      return json(undefined, 204);
    }
    if (path.startsWith("v1/lab/")) return void this.lab(path.slice("v1/lab/".length), request, searchParams, json, response);
    if (/^v1\/experiments(\/|$)/.test(path)) {
      const [, , name, rest] = path.split("/").map(decodeURIComponent);
      return void this.experimentsAt(name, rest, request, json);
    }
    if (path === "v1/keys") return json([{ id: "12", name: "shop", scopes: ["read"], created_at: "2026-10-01T10:00:00Z" }]);
    if (path === "v1/audit") return json({ entries: [{ id: "1", at: new Date(now).toISOString(), key_id: null, action: "DELETE /v1/sessions/{session_id}", object: {}, status: 204 }] });
    return json({ code: "not_found", message: "There is nothing at this path." }, 404);
  }
}

export { KEY, accountId, guildId };
