/**
 * Libraries: how each connects to a gateway and hands over raw events, with its own processing of them or without.
 *
 * Each is `async (mode, onEvent) => stop`. A mode has `gateway`, `api`, `encoding`, `compression` and `processing`:
 * `own` or `off`. No file of a library is changed: subclasses, options and what `require` finds switch processing off and
 * choose codecs. A library throws "cannot: …" if it lacks the mode.
 */

import { readFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** Where the libraries are installed: this folder, or the one that CLIENT_MODULES names. */
const FOLDER = process.env.CLIENT_MODULES ? pathToFileURL(`${path.resolve(process.env.CLIENT_MODULES)}/`) : new URL(".", import.meta.url);
const require = createRequire(new URL("libraries.mjs", FOLDER));
const INTENTS = 33_281;
/** Bot tokens begin with the id of the bot. */
const TOKEN = "MTEwMDAwMDAwMDAwMDAwMDkwMA.bench.bench";

function cannot(what) {
  throw new Error(`cannot: ${what}`);
}

/** An optional module that the library must not find. */
function hide(name) {
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function (request, ...rest) {
    if (request === name) throw Object.assign(new Error(`${name} is hidden`), { code: "MODULE_NOT_FOUND" });
    return resolve.call(this, request, ...rest);
  };
}

async function guildhall({ gateway, encoding, compression, processing }, event, onEvent) {
  const sdk = await import("../../sdk/typescript/dist/node.js");
  const codecs = await import("../../sdk/typescript/dist/codecs.node.js");
  const compressions = { none: sdk.none, "zlib-stream": codecs.zlibStream(), "zstd-stream": codecs.zstdStream() };
  const client = new sdk.Client({
    url: gateway, token: TOKEN, intents: INTENTS, cache: processing === "own",
    encoding: encoding === "etf" ? codecs.etf : sdk.json, compression: [compressions[compression]],
  });
  const fail = ({ problem }) => { throw new Error(problem.message); };
  client.on("reconnect", fail);
  client.on("codecFallback", ({ reason }) => { throw new Error(reason); });
  client.on(event, onEvent);
  client.connect();
  return () => client.close();
}

export const libraries = {
  /** With its cache, or without. */
  guildhall: (mode, onEvent) => guildhall(mode, "dispatch", (_body, { name }) => onEvent(name)),

  /** The fast path: decompressed bytes with event name and sequence number; bodies are not decoded. */
  "guildhall, not decoded": (mode, onEvent) => {
    if (mode.processing === "own") cannot("it leaves the body to the application");
    return guildhall(mode, "message", ({ name }) => onEvent(name));
  },

  async "discord.js"({ api, encoding, compression, processing }, onEvent) {
    if (encoding === "etf") cannot("discord.js has no ETF");
    if (compression === "zstd-stream") cannot("discord.js has no zstd");
    if (compression === "none") hide("zlib-sync");
    const { Client } = require("discord.js");
    const client = new Client({ intents: INTENTS, rest: { api } });
    if (processing === "off") client.ws.handlePacket = () => false;
    client.on("raw", ({ t }) => onEvent(t));
    client.on("error", (error) => { throw error; });
    await client.login(TOKEN);
    return () => client.destroy();
  },

  /** ETF if it finds erlpack; https is hard-wired for REST, so its agent opens plain connections. */
  async eris({ api, encoding, compression, processing }, onEvent) {
    if (compression === "zstd-stream") cannot("eris has no zstd");
    if (encoding === "json") hide("erlpack");
    const Eris = require("eris");
    const Shard = require("eris/lib/gateway/Shard");
    if (processing === "off") {
      const { wsEvent } = Shard.prototype;
      // READY ends the timer of the connection.
      Shard.prototype.wsEvent = function (packet) { if (packet.t === "READY") wsEvent.call(this, packet); };
    }
    const { host, port, hostname } = new URL(api);
    const agent = new https.Agent();
    agent.createConnection = () => net.connect(Number(port), hostname);
    const client = new Eris.Client(`Bot ${TOKEN}`, {
      intents: INTENTS, compress: compression === "zlib-stream", maxShards: "auto", rest: { domain: host, baseURL: "/api/v10", agent },
    });
    client.on("rawWS", ({ op, t }) => op === 0 && onEvent(t));
    client.on("error", (error) => { throw error; });
    await client.connect();
    return () => client.disconnect({ reconnect: false });
  },

  /** Its option `whitelistedEvents` switches processing off. */
  async detritus({ gateway, api, encoding, compression, processing }, onEvent) {
    if (compression === "zstd-stream") cannot("detritus has no zstd");
    const { ShardClient } = require("detritus-client");
    const client = new ShardClient(TOKEN, {
      isBot: true, rest: { baseUrl: `${api}/v9` }, cache: { applications: { enabled: false } },
      gateway: {
        encoding, compress: compression === "none" ? "none" : "zlib-stream", intents: INTENTS,
        ...(processing === "off" && { whitelistedEvents: ["READY"] }),
      },
    });
    client.on("raw", ({ t }) => onEvent(t));
    client.on("warn", ({ error }) => { throw error; });
    client.gateway.on("warn", (error) => { throw error; });
    await client.run({ url: gateway, wait: false });
    return () => client.kill();
  },

  /** Its shard; its own processing renames the keys. It cannot take two compressed messages at once, so it gets one after the other. */
  async discordeno({ gateway, encoding, compression, processing }, onEvent) {
    if (encoding === "etf") cannot("discordeno has no ETF");
    if (compression === "zstd-stream") cannot("discordeno hands over each event when the next message arrives, so HELLO is never answered");
    const { DiscordenoShard } = await import("@discordeno/gateway");
    class Shard extends DiscordenoShard {
      last = Promise.resolve();

      handleMessage(message) {
        if (compression === "none") return super.handleMessage(message);
        return (this.last = this.last.then(() => super.handleMessage(message)));
      }

      forwardToBot(packet) {
        if (packet.op === 0) onEvent(packet.t);
        if (processing === "own") super.forwardToBot(packet);
      }
    }
    const quiet = () => {};
    const shard = new Shard({
      id: 0, events: { message: quiet }, logger: { debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet },
      connection: {
        url: gateway, version: 10, token: TOKEN, intents: INTENTS, totalShards: 1, compress: false, properties: { os: "linux", browser: "bench", device: "bench" },
        transportCompression: compression === "none" ? null : compression,
      },
    });
    await shard.identify();
    return () => shard.shutdown();
  },

  /** In no registry: TINY_DISCORD names a clone of github.com/timotejroiko/tiny-discord. It has no processing of events. */
  async "tiny-discord"({ gateway, encoding, compression, processing }, onEvent) {
    if (!process.env.TINY_DISCORD) cannot("TINY_DISCORD is not set");
    if (compression === "zstd-stream") cannot("tiny-discord has no zstd");
    if (processing === "own") cannot("tiny-discord does not process events");
    // Its scheme is hard-wired, the port is a part of its host name, and it drops what arrives with the answer to the upgrade.
    https.request = ({ hostname, ...rest }) => {
      const [name, port] = hostname.split(":");
      return http.request({ hostname: name, port, ...rest }).on("upgrade", (_response, socket, head) => head.length > 0 && socket.unshift(head));
    };
    const { WebsocketShard } = require(path.resolve(process.env.TINY_DISCORD));
    const shard = new WebsocketShard({ token: TOKEN, intents: INTENTS, url: gateway, encoding, compression: compression === "none" ? 0 : 2 });
    shard.on("ready", () => onEvent("READY"));
    shard.on("event", ({ t }) => onEvent(t));
    shard.on("debug", (text) => { if (text instanceof Error) throw text; });
    await shard.connect();
    return () => shard.close(true);
  },
};

/** Versions, as installed. */
export function versions() {
  const version = (name) => {
    try {
      return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, FOLDER), "utf8")).version;
    } catch {
      return null;
    }
  };
  const names = ["discord.js", "@discordjs/ws", "@discordeno/gateway", "eris", "detritus-client", "detritus-client-socket", "ws", "erlpack", "zlib-sync"];
  return Object.fromEntries(names.map((name) => [name, version(name)]));
}
