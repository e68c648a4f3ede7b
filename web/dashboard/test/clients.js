// Clients of many kinds without a browser: they count the bytes that they receive and drop them, so they need no decoder.

import { randomBytes } from "node:crypto";
import { connect } from "node:net";

/** A value in the external term format. */
function term(value) {
  const sized = (tag, size, ...rest) => {
    const head = Buffer.alloc(5);
    head[0] = tag;
    head.writeUInt32BE(size, 1);
    return Buffer.concat([head, ...rest]);
  };
  if (value === null || typeof value === "boolean") {
    const name = Buffer.from(value === null ? "nil" : String(value));
    return Buffer.concat([Buffer.from([119, name.length]), name]);
  }
  if (typeof value === "number") {
    const whole = Buffer.alloc(5);
    whole[0] = 98;
    whole.writeInt32BE(value, 1);
    return whole;
  }
  if (typeof value === "string") return sized(109, Buffer.byteLength(value), Buffer.from(value));
  if (Array.isArray(value)) return value.length === 0 ? Buffer.from([106]) : sized(108, value.length, ...value.map(term), Buffer.from([106]));
  const entries = Object.entries(value);
  return sized(116, entries.length, ...entries.flat().map(term));
}

/** Milliseconds between two heartbeats: often, so that replay buffers are as small as a client library keeps them. */
const BEAT_MS = 10_000;

export class Client {
  #socket;
  #rest = Buffer.alloc(0);
  #messages = 0;
  #beats = 0;
  #timer;

  /** `compress` is of the URL; without it the client offers permessage-deflate if `deflates`. `opens` is the guild that it has in view, `leaves` ends the connection without a close frame. */
  constructor({ url, token, encoding = "json", compress, deflates = false, properties, capabilities, opens }) {
    const { hostname, port } = new URL(url);
    this.encoding = encoding;
    this.#socket = connect({ host: hostname, port: Number(port) });
    this.#socket.on("error", () => {});
    this.#socket.on("data", (chunk) => this.#take(chunk));
    this.#socket.on("close", () => clearInterval(this.#timer));
    const query = `v=10&encoding=${encoding}${compress ? `&compress=${compress}` : ""}`;
    this.#socket.write(`GET /?${query} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n${deflates ? "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n" : ""}\r\n`);
    this.#send({ op: 2, d: { token, intents: 3_276_799, properties, ...(capabilities === undefined ? {} : { capabilities }) } });
    if (opens) this.#send({ op: 37, d: { subscriptions: { [opens.guild]: { typing: true, threads: true, activities: true, channels: { [opens.channel]: [[0, 99]] } } } } });
    this.#timer = setInterval(() => {
      // Each message but HELLO and the answers to heartbeats is a dispatch; the last few may be on their way to the count.
      const seq = this.#messages - 1 - this.#beats;
      this.#beats++;
      this.#send({ op: 1, d: seq > 0 ? seq : null });
    }, BEAT_MS);
  }

  #send(payload) {
    const body = this.encoding === "etf" ? Buffer.concat([Buffer.from([131]), term(payload)]) : Buffer.from(JSON.stringify(payload));
    // The mask is zero: it protects proxies, of which there are none.
    const size = body.length < 126 ? [0x80 | body.length] : [0x80 | 126, body.length >> 8, body.length & 255];
    this.#socket.write(Buffer.concat([Buffer.from([this.encoding === "etf" ? 0x82 : 0x81, ...size, 0, 0, 0, 0]), body]));
  }

  #take(chunk) {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    if (!this.isOpen) {
      const end = this.#rest.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.isOpen = true;
      this.#rest = this.#rest.subarray(end + 4);
    }
    for (;;) {
      const rest = this.#rest;
      if (rest.length < 2) return;
      const short = rest[1] & 127;
      const head = short === 126 ? 4 : short === 127 ? 10 : 2;
      if (rest.length < head) return;
      const size = short === 126 ? rest.readUInt16BE(2) : short === 127 ? Number(rest.readBigUInt64BE(2)) : short;
      if (rest.length < head + size) return;
      if ((rest[0] & 8) === 0 && rest[0] & 128) this.#messages++;
      if ((rest[0] & 15) === 8) this.closed = rest.readUInt16BE(head);
      this.#rest = rest.subarray(head + size);
    }
  }

  /** Ends the connection without a close frame: its session can be resumed. */
  cut() { this.#socket.destroy(); }
}

/** Clients as people use them: which codec, encoding and platform how many have, and whether they have the guild in view. */
const KINDS = [
  { compress: "zstd-stream", encoding: "etf", browser: "Discord Client", os: "windows", sees: true },
  { compress: "zlib-stream", encoding: "json", browser: "Discord Android", os: "android" },
  { deflates: true, encoding: "json", browser: "Firefox", os: "linux", sees: true },
  { compress: "zstd-stream", encoding: "json", browser: "Discord iOS", os: "ios" },
  { compress: "zstd-stream", encoding: "etf", browser: "Discord Client", os: "macos" },
  { compress: "zlib-stream", encoding: "json", browser: "Discord iOS", os: "ios", sees: true },
  { encoding: "json", browser: "Chrome", os: "linux" },
  { compress: "zlib-stream", encoding: "etf", browser: "Discord Client", os: "linux", sees: true },
];

/** An answer of the node as JSON. */
async function ask(url, authorization, method = "GET", body) {
  const response = await fetch(url, { method, headers: { authorization, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  const text = await response.text();
  return text && JSON.parse(text);
}

const PLACES = ["Chess Club", "Night Bakery", "Allotment 12", "Sea Swimmers", "Radio Orion"];

/**
 * A community at work on a demo: some accounts with clients of all kinds, two bots' sessions, a session without its
 * connection, and smaller guilds in which some of them write. `stop` ends the writing.
 */
export async function populate(node, accounts = 30) {
  const { demo, origin } = node;
  const members = (await ask(`${origin}/api/v10/guilds/${demo.guild_id}/members?limit=100`, `Bot ${demo.bot_token}`)).map(({ user }) => user).filter(({ bot }) => !bot).slice(0, accounts);
  const people = await Promise.all(members.map(async (user) => ({ ...user, token: (await ask(`${origin}/v1/users/${user.id}/tokens`, `Bearer ${demo.admin_key}`, "POST", { ttl_s: 86_400 })).token })));
  const places = [];
  for (const [index, name] of PLACES.entries()) {
    const owner = people[index];
    const guild = await ask(`${origin}/api/v10/guilds`, owner.token, "POST", { name });
    const channel = await ask(`${origin}/api/v10/guilds/${guild.id}/channels`, owner.token, "POST", { name: "all", type: 0 });
    const joining = people.filter((_, each) => each !== index && each % (index + 2) === 0).map(({ id, username }) => JSON.stringify({ user: { id, username } }));
    const response = await fetch(`${origin}/v1/guilds/${guild.id}/members/import`, { method: "POST", headers: { authorization: `Bearer ${demo.admin_key}` }, body: joining.join("\n") });
    const answer = await response.text();
    if (!answer.includes('"failed":0')) throw new Error(`import: ${response.status} ${answer}`);
    places.push({ owner, channel });
  }
  const view = { guild: demo.guild_id, channel: demo.channel_ids[0] };
  const clients = people.map(({ token }, index) => {
    const { browser, os, sees, ...kind } = KINDS[index % KINDS.length];
    return new Client({ url: demo.gateway_url, token, ...kind, properties: { os, browser, device: "" }, capabilities: 1_734_653, opens: sees && view });
  });
  for (const kind of [{ compress: "zstd-stream" }, { deflates: true }]) clients.push(new Client({ url: demo.gateway_url, token: demo.bot_token, ...kind, properties: { os: "linux", browser: "mylib", device: "mylib" } }));
  let number = 0;
  const timers = places.map(({ owner, channel }, index) => setInterval(() => {
    ask(`${origin}/api/v10/channels/${channel.id}/messages`, owner.token, "POST", { content: `Round ${++number}: ${"who comes along? ".repeat(1 + (number % 4))}` }).catch(() => {});
  }, 400 * (index + 1)));
  return { clients, people, places, stop: () => { for (const timer of timers) clearInterval(timer); for (const client of clients) client.cut(); } };
}
