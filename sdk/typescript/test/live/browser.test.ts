/** The SDK against a real node, in Chromium, under a strict content security policy. */

import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { existsSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";
import { build } from "esbuild";
import { chromium, type Browser, type Page } from "playwright-core";
import { Node, until } from "../support/node.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const CSP = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src *; img-src data:";

/** Runs in the page: a client that records what it received. */
const PAGE = `
  import { Client, json, none } from "./index.js";
  import { etf, zlibStream, zstdStream } from "./codecs.js";
  const ENCODINGS = { json, etf };
  const COMPRESSIONS = { none: () => none, "zlib-stream": zlibStream, "zstd-stream": zstdStream, dictionary: () => zstdStream({ dictionary: true }) };
  window.start = async ({ url, httpUrl, token, encoding, compression, guildId }) => {
    const client = new Client({ url, httpUrl, token, encoding: ENCODINGS[encoding], compression: COMPRESSIONS[compression](), backoffMinMs: 100 });
    const seen = { contents: [], faults: [], resumed: 0, lost: 0, raw: 0, wire: 0, hidden: 0 };
    client.on("MESSAGE_CREATE", (message) => seen.contents.push(message.content));
    client.on("gap", (gap) => seen.faults.push(gap));
    client.on("codecFallback", (info) => seen.faults.push(info));
    client.on("problem", (problem) => seen.faults.push(problem));
    for (const name of ["resumed", "lost"]) client.on(name, () => { seen[name] += 1; });
    client.on("message", (message) => {
      seen.raw += message.rawBytes;
      if (message.wireBytes === null) seen.hidden += 1;
      else seen.wire += message.wireBytes;
    });
    Object.assign(window, { client, seen });
    client.connect();
    const result = await client.ready();
    client.openGuild(guildId);
    return result.ok;
  };
`;

const isThere = existsSync(CHROMIUM);

describe("in Chromium", { skip: isThere ? false : `${CHROMIUM} is not there: apt-get install chromium`, timeout: 240_000 }, () => {
  let node: Node;
  let server: Server;
  let browser: Browser;
  let page: Page;
  const console_: string[] = [];

  before(async () => {
    const dictionaries = mkdtempSync(join(tmpdir(), "guildhall-dictionaries-"));
    Node.trainDictionaries(dictionaries);
    node = await Node.start([`codec.dictionaries_dir=${dictionaries}`]);
    const source = new URL("../../../src/", import.meta.url).pathname;
    const { outputFiles } = await build({
      stdin: { contents: PAGE, resolveDir: source, loader: "js" },
      bundle: true, format: "esm", write: false, platform: "browser", minify: true, logLevel: "silent",
      plugins: [{ name: "ts", setup: (of) => of.onResolve({ filter: /\.js$/ }, ({ path, resolveDir }) => {
        const ts = join(resolveDir, path.replace(/\.js$/, ".ts"));
        return existsSync(ts) ? { path: ts } : null;
      }) }],
    });
    const script = outputFiles[0]?.text ?? "";
    server = createServer((request, response) => {
      const isScript = request.url === "/page.js";
      response.writeHead(200, { "Content-Type": isScript ? "text/javascript" : "text/html", "Content-Security-Policy": CSP });
      response.end(isScript ? script : '<!doctype html><link rel="icon" href="data:,"><script type="module" src="page.js"></script>');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    page = await browser.newPage();
    page.on("console", (message) => void console_.push(message.text()));
    page.on("pageerror", (error) => void console_.push(String(error)));
  });

  after(async () => {
    await browser?.close();
    server?.close();
    await node?.remove();
  });

  const seen = () => page.evaluate("window.seen") as Promise<{ contents: string[]; faults: unknown[]; resumed: number; raw: number; wire: number; hidden: number }>;

  /** Waits for an expression. `waitForFunction` evaluates in the page, which its policy forbids. */
  async function holds(what: string, expression: string, ms?: number): Promise<void> {
    let isTrue = false;
    await until(what, () => (void page.evaluate(expression).then((of) => (isTrue = of === true)), isTrue), ms);
  }

  for (const encoding of ["json", "etf"]) {
    for (const compression of ["none", "zlib-stream", "zstd-stream", "dictionary"]) {
      test(`${encoding}, ${compression}: cut three times, nothing lost or doubled`, async () => {
        console_.length = 0;
        await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
        await page.waitForFunction("window.start");
        const settings = {
          url: node.demo.gateway_url, httpUrl: `http://127.0.0.1:${node.port}`, token: node.demo.user_token, encoding, compression, guildId: node.demo.guild_id,
        };
        assert.equal(await page.evaluate(`window.start(${JSON.stringify(settings)})`), true);
        const wanted: string[] = [];
        for (const round of [0, 1, 2]) {
          for (const text of ["é€😀", "x".repeat(1_500), "\u2028 end"]) {
            wanted.push(`${round} ${text}`);
            await node.post(`${round} ${text}`);
          }
          node.proxy.cut(round % 2 ? "fin" : "reset");
          wanted.push(`${round} away`);
          await node.post(`${round} away`);
          let resumed = 0;
          await until("the resume", () => (void seen().then((of) => (resumed = of.resumed)), resumed > round));
        }
        let contents: string[] = [];
        await until("all messages", () => (void seen().then((of) => (contents = of.contents)), contents.length >= wanted.length));
        const { faults, raw, wire, hidden } = await seen();
        assert.deepEqual(contents, wanted);
        assert.deepEqual(faults, []);
        // Without a stream compression the browser negotiates its own and hides what was on the wire.
        if (compression === "none") assert.ok(hidden > 0);
        else assert.ok(hidden === 0 && wire < raw / 2, `${wire} of ${raw}`);
        await page.evaluate("window.client.close()");
        // Chromium itself reports connections that were reset.
        assert.deepEqual(console_.filter((text) => !/WebSocket connection to/.test(text)), []);
      });
    }
  }

  for (const [signal, expected] of [["SIGTERM", "resumed"], ["SIGKILL", "lost"]] as const) {
    test(`${signal} of the node: the session is ${expected}`, async () => {
      console_.length = 0;
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      await page.waitForFunction("window.start");
      const settings = { url: node.demo.gateway_url, token: node.demo.user_token, encoding: "json", compression: "zstd-stream", guildId: node.demo.guild_id };
      assert.equal(await page.evaluate(`window.start(${JSON.stringify(settings)})`), true);
      await node.post(`before ${signal}`);
      await holds("the message", "window.seen.contents.length > 0");
      await node.stop(signal);
      await node.start();
      await holds("the session", `window.seen.${expected} === 1 && window.client.state === "ready"`, 60_000);
      for (let i = 0; i < 20 && (await seen()).contents.length < 2; i += 1) await node.post(`after ${i}`);
      const { contents, faults } = await seen();
      assert.ok(contents.length >= 2 && contents[0] === `before ${signal}`);
      assert.equal(new Set(contents).size, contents.length);
      assert.deepEqual(faults, []);
      await page.evaluate("window.client.close()");
      assert.deepEqual(console_.filter((text) => !/WebSocket connection to/.test(text)), []);
    });
  }
});
