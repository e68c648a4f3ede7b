// Support: a demo node of its own per test file, and browsers that fail on any output of the console.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserFor, freePort, PATIENCE_MS, SERVER, until } from "../../test-page.mjs";

export { overflow, until } from "../../test-page.mjs";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

export class Node {
  static async start({ members = 60, rate = 0, seed = 1, settings = ["limits.rest_rate_percent=0"], network } = {}) {
    if (!SERVER) throw new Error("no guildhall to test: cargo build -p guildhall, or set GUILDHALL");
    const node = new Node();
    node.dir = mkdtempSync(join(tmpdir(), "guildhall-chat-test-"));
    node.port = await freePort();
    node.arguments = ["demo", "--listen", `127.0.0.1:${node.port}`, "--data", node.dir, "--members", String(members), "--rate", String(rate), "--seed", String(seed), ...settings.flatMap((pair) => ["--set", pair])];
    if (network) node.arguments.push("--public-url", network.gatewayUrl);
    await node.run();
    if (network) network.node = node;
    return node;
  }

  async run() {
    this.log = "";
    this.process = spawn(SERVER, this.arguments, { stdio: ["ignore", "pipe", "pipe"], cwd: this.dir });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (chunk) => { this.log = (this.log + chunk).slice(-20_000); });
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      if (await fetch(`${this.origin}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) }).then((response) => response.ok, () => false)) break;
      if (Date.now() > deadline || this.process.exitCode !== null) throw new Error(`the node is not ready:\n${this.log}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
    this.demo = JSON.parse(readFileSync(join(this.dir, "demo.json"), "utf8"));
  }

  get origin() { return `http://127.0.0.1:${this.port}`; }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill(signal);
    await until(`the end of the node after ${signal}`, () => this.process.exitCode !== null || this.process.signalCode !== null);
  }

  async stop() {
    await this.end("SIGKILL");
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** As the demo's bot, or with another token. */
  async rest(method, path, body, authorization = `Bot ${this.demo.bot_token}`) {
    const headers = { authorization, "content-type": "application/json" };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch(`${this.demo.api_base}/v10${path}`, { method, headers, body: body && JSON.stringify(body), signal });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** The demo's second guild, and its text channels: the demo's user is there, the bot is not. */
  async second() {
    const guilds = await this.rest("GET", "/users/@me/guilds", undefined, this.demo.user_token);
    const { id, name } = guilds.find((guild) => guild.id !== this.demo.guild_id);
    const channels = (await this.rest("GET", `/guilds/${id}/channels`, undefined, this.demo.user_token)).filter((channel) => channel.type === 0);
    return { id, name, channels, say: (channel, content) => this.rest("POST", `/channels/${channel.id}/messages`, { content }, this.demo.user_token) };
  }

  say(channel, content, more = {}) { return this.rest("POST", `/channels/${this.demo.channel_ids[channel]}/messages`, { content, ...more }); }
}

/** A network between browsers and the node, which can be taken away. */
export class Network {
  #sockets = new Set();
  #isUp = true;

  /** The node behind it is set as `node` once it runs; it has to announce `gatewayUrl`, or clients resume around the network. */
  static async open() {
    const network = new Network();
    network.server = createServer((near) => network.#join(near));
    network.server.listen(0, "127.0.0.1");
    await once(network.server, "listening");
    const { port } = network.server.address();
    network.origin = `http://127.0.0.1:${port}`;
    network.gatewayUrl = `ws://127.0.0.1:${port}`;
    return network;
  }

  #join(near) {
    if (!this.#isUp) return near.destroy();
    const far = connect(this.node.port, "127.0.0.1");
    for (const [from, to] of [[near, far], [far, near]]) {
      this.#sockets.add(from);
      from.on("data", (data) => { if (!to.write(data)) { from.pause(); to.once("drain", () => from.resume()); } });
      from.on("error", () => {});
      from.on("close", () => { this.#sockets.delete(from); to.destroy(); });
    }
  }

  /** Resets every connection, and refuses new ones until `mend`. */
  cut() {
    this.#isUp = false;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  mend() { this.#isUp = true; }

  close() { this.cut(); this.server.close(); }
}

const toDist = Boolean(process.env.CHAT_DIST);
export const { newPage, closeBrowser, violations } = browserFor(import.meta.url, {
  viewport: { width: 1280, height: 800 }, arguments: toDist ? ["--disable-features=LocalNetworkAccessChecks"] : [],
  prepare: (context) => toDist && serveDist(context),
});

/** A visitor in a browser of their own. */
export async function visit(node, { through, codec, ...options } = {}) {
  const page = await newPage(options);
  if (codec) await page.addInitScript((name) => localStorage.setItem("guildhall.chat.codec", name), codec);
  await page.goto(`${(through ?? node).origin}/chat/`);
  await page.getByRole("button", { name: "Join as a visitor" }).click();
  await page.locator("#composer").waitFor();
  return page;
}

/** With CHAT_DIST=1 the page comes from `dist`, and not from the binary: no compiler has to run after a change. */
async function serveDist(context) {
  const types = { html: "text/html; charset=utf-8", css: "text/css", js: "text/javascript", wasm: "application/wasm" };
  await context.route(/\/chat\/(assets\/[^?]*)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice("/chat/".length) || "index.html";
    // The policy of the document is the node's.
    const policy = name === "index.html" ? (await route.fetch()).headers()["content-security-policy"] : "";
    await route.fulfill({ body: readFileSync(join(ROOT, "web/chat/dist", name)), headers: { "content-type": types[name.split(".").at(-1)], "content-security-policy": policy } });
  });
}

export const messages = (page) => page.locator(".message .content");
export const message = (page, text) => page.locator(".message", { has: page.locator(".content", { hasText: text }) }).last();

export async function say(page, text) {
  await page.locator("#composer").fill(text);
  await page.keyboard.press("Enter");
  await message(page, text).and(page.locator(".message:not(.sending)")).waitFor();
}

export async function open(page, channel) {
  await page.locator(`.channel[data-channel="${channel}"]`).click();
  await page.locator(".channel-head h2", { hasText: channel }).waitFor();
}
