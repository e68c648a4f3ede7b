/**
 * Readers: how each library gets from the payload of a WebSocket frame to its raw event. Each is the library's own code,
 * called the way that its socket calls it; what it does with an event afterwards is left out.
 *
 * A reader is `async (encoding, compression, onEvent) => push(frame)`; it throws if the library cannot do the mode.
 */

import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(import.meta.url);
const cannot = (what) => {
  throw new Error(`cannot: ${what}`);
};

async function sdkClient(encoding, compression, listen) {
  const sdk = await import("../dist/node.js");
  const codecs = await import("../dist/codecs.node.js");
  const compressions = { none: sdk.none, "zlib-stream": codecs.zlibStream(), "zstd-stream": codecs.zstdStream() };
  let handlers;
  const client = new sdk.Client({
    url: "ws://bench", token: "t", cache: false, clock: { now: () => 0, setTimeout: () => 0, clearTimeout() {} }, encoding: encoding === "etf" ? codecs.etf : sdk.json, compression: [compressions[compression]],
    openSocket: (_, of) => ((handlers = of), { send() {}, close() {}, hidesWireBytes: false }),
  });
  client.on("reconnect", ({ problem }) => cannot(problem.message));
  client.connect();
  while (!handlers) await new Promise((resolve) => setTimeout(resolve, 5));
  handlers.opened();
  listen(client);
  return (frame) => handlers.message(frame, 4);
}

export const readers = {
  /** The whole client, up to the listener of every event. */
  guildhall: (encoding, compression, onEvent) => sdkClient(encoding, compression, (client) => client.on("dispatch", onEvent)),

  /** The fast path: raw bytes with event name and sequence number. */
  "guildhall, raw": (encoding, compression, onEvent) => sdkClient(encoding, compression, (client) => client.on("message", onEvent)),

  /** `WebSocketShard.unpackMessage`. */
  async "discord.js"(encoding, compression, onEvent) {
    if (encoding !== "json" || compression === "zstd-stream") cannot("discord.js has neither ETF nor zstd");
    const { WebSocketShard } = await import("@discordjs/ws");
    const shard = new WebSocketShard({ options: {} }, 0);
    if (compression === "zlib-stream") {
      const zlib = require("zlib-sync");
      shard.inflate = new zlib.Inflate({ chunkSize: 65_535, to: "string" });
    }
    return async (frame) => {
      const payload = await shard.unpackMessage(compression === "none" ? frame.toString() : frame.buffer, compression !== "none");
      onEvent(payload);
    };
  },

  /** `Shard._onWSMessage`, up to the event `rawWS`. It uses erlpack if that is installed. */
  async eris(encoding, compression, onEvent) {
    if (compression === "zstd-stream") cannot("eris has no zstd");
    if (encoding === "json") hide("erlpack");
    const Shard = require("eris/lib/gateway/Shard");
    const client = { options: { compress: compression === "zlib-stream", disableEvents: {}, intents: 0, presence: {} }, presence: {}, shards: { options: {} }, listeners: () => [], emit() {} };
    const shard = new Shard(0, client);
    shard.on("rawWS", onEvent);
    shard.on("error", (error) => { throw error; });
    shard.wsEvent = () => {};
    if (compression === "zlib-stream") {
      const zlib = require("zlib-sync");
      shard._zlibSync = new zlib.Inflate({ chunkSize: 128 * 1024 });
    }
    return (frame) => shard._onWSMessage(frame);
  },

  /** `Socket.handle`, up to the event `packet`. */
  async detritus(encoding, compression, onEvent) {
    if (compression === "zstd-stream") cannot("detritus has no zstd");
    const { Socket } = require("detritus-client-socket/lib/gateway.js");
    const socket = new Socket("t", { encoding, compress: compression === "zlib-stream" ? "zlib-stream" : "none" });
    socket.on("packet", onEvent);
    socket.on("warn", (error) => { throw error; });
    socket.socket = {};
    return (frame) => socket.onMessage(socket.socket, frame);
  },

  /** `DiscordenoShard.handleMessage`, up to the packet, before its keys are renamed. One message after the other: it cannot take two at once. */
  async discordeno(encoding, compression, onEvent) {
    if (encoding !== "json") cannot("discordeno has no ETF");
    const { DiscordenoShard } = await import("@discordeno/gateway");
    const { Server } = require("ws");
    // `connect` makes the decompressors, so there is something to connect to.
    const server = new Server({ port: 0, host: "127.0.0.1" });
    await new Promise((resolve) => server.once("listening", resolve));
    const connection = { url: `ws://127.0.0.1:${server.address().port}`, version: 10, token: "t", compress: false, transportCompression: compression === "none" ? null : compression };
    const quiet = () => {};
    const shard = new DiscordenoShard({ id: 0, connection, events: {}, logger: { debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet } });
    await shard.connect();
    shard.forwardToBot = onEvent;
    if (compression === "zstd-stream") {
      // Version 21 reads the event after fzstd has emitted it: the first is lost, and each later one waits for the next message.
      onEvent();
      return (frame) => void shard.handleMessage({ data: frame.buffer });
    }
    let last = Promise.resolve();
    return (frame) => (last = last.then(() => shard.handleMessage({ data: compression === "none" ? frame.toString() : frame.buffer })));
  },

  /** `WebsocketShard._processFrame`, up to `event`. It is in no registry: TINY_DISCORD names a clone of its repository. */
  async "tiny-discord"(encoding, compression, onEvent) {
    if (!process.env.TINY_DISCORD) cannot("TINY_DISCORD is not set");
    if (compression === "zstd-stream") cannot("tiny-discord has no zstd");
    const { createHash } = require("node:crypto");
    const { EventEmitter } = require("node:events");
    const https = require("node:https");
    // Its decompressor is made when a connection is there.
    https.request = ({ headers }) => {
      const request = new EventEmitter();
      request.end = () => {
        const accept = createHash("sha1").update(`${headers["Sec-WebSocket-Key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
        queueMicrotask(() => request.emit("upgrade", { headers: { "sec-websocket-accept": accept } }, new EventEmitter()));
      };
      return request;
    };
    const { WebsocketShard } = require(path.resolve(process.env.TINY_DISCORD));
    const shard = new WebsocketShard({ token: "t", intents: 0, encoding, compression: compression === "none" ? 0 : 2 });
    await shard.connect();
    shard.on("event", onEvent);
    shard.on("debug", (text) => { if (text instanceof Error) throw text; });
    const opcode = encoding === "json" && compression === "none" ? 1 : 2;
    return (frame) => shard._processFrame(opcode, frame);
  },
};

/** Makes an optional module look as if it were not installed. */
function hide(name) {
  const Module = require("node:module");
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function (request, ...rest) {
    if (request === name) throw Object.assign(new Error(`${name} is hidden`), { code: "MODULE_NOT_FOUND" });
    return resolve.call(this, request, ...rest);
  };
}
