/** A real node with a proxy in front of its gateway. The environment variable GUILDHALL names the binary. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, openSync } from "node:fs";
import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Demo {
  readonly api_base: string;
  readonly gateway_url: string;
  readonly bot_token: string;
  readonly user_token: string;
  readonly admin_key: string;
  readonly guild_id: string;
  readonly channel_ids: readonly string[];
}

/** Passes bytes on in both directions; `cut` breaks all connections in the middle of the node's bytes. */
export class Proxy {
  #server: Server;
  #sockets = new Set<Socket>();
  #targetPort: number;

  constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer((client) => {
      const node = connect(this.#targetPort, "127.0.0.1");
      for (const [from, to] of [[client, node], [node, client]] as const) {
        this.#sockets.add(from);
        from.on("error", () => {});
        from.on("data", (data) => to.write(data));
        from.on("close", () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  cut(how: "reset" | "fin"): void {
    for (const socket of this.#sockets) {
      if (how === "reset") socket.resetAndDestroy();
      else socket.destroy();
    }
  }

  close(): void {
    this.cut("fin");
    this.#server.close();
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => void server.close(() => resolve()));
  return port;
}

export const binary = process.env["GUILDHALL"] ?? "";

/** How long one answer, or the end of a process, may take: the machine may be busy. */
const PATIENCE_MS = 30_000;

/** Waits for the end of a process. One that goes on is killed; the message has what it `said`. */
export async function end(child: ChildProcess, said: () => string): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (child.exitCode === null && child.signalCode === null) {
    if (Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`a process does not end within ${PATIENCE_MS} ms:\n${said()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export class Node {
  readonly folder = mkdtempSync(join(tmpdir(), "guildhall-sdk-"));
  readonly proxy: Proxy;
  readonly port: number;
  demo!: Demo;
  #arguments: readonly string[];
  #process: ChildProcess | null = null;

  private constructor(port: number, proxy: Proxy, proxyPort: number, settings: readonly string[]) {
    this.port = port;
    this.proxy = proxy;
    this.#arguments = [
      "demo", "--listen", `127.0.0.1:${port}`, "--data", join(this.folder, "data"), "--members", "40", "--rate", "0", "--seed", "1",
      "--public-url", `ws://127.0.0.1:${proxyPort}`, ...["limits.rest_rate_percent=0", ...settings].flatMap((of) => ["--set", of]),
    ];
  }

  static async start(settings: readonly string[] = []): Promise<Node> {
    const port = await freePort();
    const proxy = new Proxy(port);
    const node = new Node(port, proxy, await proxy.listen(), settings);
    await node.start();
    return node;
  }

  /** Trains dictionaries, for the setting `codec.dictionaries_dir`. */
  static trainDictionaries(folder: string): void {
    const { status, stderr } = spawnSync(binary, ["lab", "train", "--generated", "session", "--bytes", "16384", "--out", folder]);
    if (status !== 0) throw new Error(String(stderr));
  }

  async start(): Promise<void> {
    const log = openSync(join(this.folder, "log"), "a");
    this.#process = spawn(binary, this.#arguments, { stdio: ["ignore", log, log] });
    const deadline = Date.now() + 60_000;
    for (;;) {
      const readyz = fetch(`http://127.0.0.1:${this.port}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
      const isReady = await readyz.then((response) => response.ok, () => false);
      if (isReady && existsSync(join(this.folder, "data", "demo.json"))) break;
      if (this.#process.exitCode !== null || Date.now() > deadline) throw new Error(readFileSync(join(this.folder, "log"), "utf8"));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    this.demo = JSON.parse(readFileSync(join(this.folder, "data", "demo.json"), "utf8")) as Demo;
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await end(child, () => readFileSync(join(this.folder, "log"), "utf8").slice(-2_000));
  }

  async remove(): Promise<void> {
    await this.stop("SIGKILL");
    this.proxy.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Posts as the bot; returns the message's id. */
  /** A request to `/v1` with the root key. */
  async v1(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(`http://127.0.0.1:${this.port}/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.demo.admin_key}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: HTTP ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async post(content: string, channelId = this.demo.channel_ids[0] as string): Promise<string> {
    const response = await fetch(`${this.demo.api_base}/v10/channels/${channelId}/messages`, {
      method: "POST",
      headers: { Authorization: `Bot ${this.demo.bot_token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ content }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (!response.ok) throw new Error(`POST answered ${response.status}: ${await response.text()}`);
    return ((await response.json()) as { id: string }).id;
  }
}

/** Waits until `isTrue`; the message says what was awaited. */
export async function until(what: string, isTrue: () => boolean, ms = 20_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
