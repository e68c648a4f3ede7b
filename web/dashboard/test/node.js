// A real node: `guildhall demo` under load, with a client of its own that identifies and stays.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, PATIENCE_MS, SERVER, until } from "../../test-page.mjs";
import { openBrowser } from "./support.js";

export class Node {
  static async start({ rate = 20, settings = [] } = {}) {
    const node = new Node();
    node.dir = mkdtempSync(join(tmpdir(), "guildhall-dashboard-test-"));
    node.origin = `http://127.0.0.1:${await freePort()}`;
    const listen = node.origin.slice("http://".length);
    const all = ["limits.rest_rate_percent=0", ...settings].flatMap((pair) => ["--set", pair]);
    node.process = spawn(SERVER, ["demo", "--listen", listen, "--data", node.dir, "--members", "60", "--rate", String(rate), ...all], { stdio: ["ignore", "ignore", "pipe"], cwd: node.dir });
    node.log = "";
    node.process.stderr.on("data", (chunk) => { node.log = (node.log + chunk).slice(-20_000); });
    await until("the node", async () => {
      if (node.process.exitCode !== null) throw new Error(`the node ended:\n${node.log}`);
      return fetch(`${node.origin}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) }).then((response) => response.ok, () => false);
    });
    node.demo = JSON.parse(readFileSync(join(node.dir, "demo.json"), "utf8"));
    return node;
  }

  /** Connects as the demo's bot, by a browser's WebSocket; resolves when READY has come. With `returns` it begins a new session when its own is closed, as a client library does. */
  async connect({ returns = false } = {}) {
    const page = await (await openBrowser()).newPage();
    // A page of the node that has no policy and no script.
    await page.goto(`${this.origin}/healthz`);
    await page.evaluate(({ url, token, returns }) => {
      const client = { sessionId: undefined, seq: null, events: 0, closes: [] };
      globalThis.client = client;
      const open = () => {
        const socket = new WebSocket(url);
        socket.addEventListener("close", ({ code }) => {
          client.closes.push(code);
          if (returns) setTimeout(open, 1_000);
        });
        socket.addEventListener("message", ({ data }) => {
          const { op, t, s, d } = JSON.parse(data);
          client.seq = s ?? client.seq;
          if (op === 10) setInterval(() => { if (socket.readyState === 1) socket.send(JSON.stringify({ op: 1, d: client.seq })); }, d.heartbeat_interval / 2);
          const properties = { os: "linux", browser: "Discord Client", device: "" };
          if (op === 10) socket.send(JSON.stringify({ op: 2, d: { token, intents: 3_276_799, properties } }));
          if (t === "READY") client.sessionId = d.session_id;
          if (op === 0) client.events++;
        });
      };
      open();
    }, { url: `${this.demo.gateway_url}/?v=10&encoding=json`, token: this.demo.bot_token, returns });
    const client = { state: () => page.evaluate(() => globalThis.client) };
    client.sessionId = await until("READY", async () => (await client.state()).sessionId);
    return client;
  }

  /** Ends by itself within the patience of the tests, or is killed. */
  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const ended = once(this.process, "exit");
      this.process.kill("SIGTERM");
      const timer = setTimeout(() => this.process.kill("SIGKILL"), PATIENCE_MS);
      await ended;
      clearTimeout(timer);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}
