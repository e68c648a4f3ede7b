// The pages on a real node under load: log in, every page, one guild, one session and its end, the actions.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Node } from "./node.js";
import { closeBrowser, overflow, show, until, violations, visit } from "./support.js";

const PAGES = ["overview", "bandwidth", "guilds", "sessions", "compression", "lab", "experiments", "operations"];
let node;
let client;
before(async () => {
  node = await Node.start();
  client = await node.connect();
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const open = (options) => visit(node, { key: node.demo.admin_key, ...options });

/** First of all, so that later tests find its figures. The arms' names are short as long as the page has the node's defaults. */
test("a dark launch of the lab: its arms and figures; a recording is saved", async () => {
  const page = await open({ path: "lab" });
  await page.getByRole("button", { name: "Start dark launch" }).click();
  const arms = page.getByRole("region", { name: "Arms", exact: true }).locator("tbody tr");
  await until("figures of four arms", async () => (await arms.count()) === 4);
  const names = await arms.evaluateAll((rows) => rows.map((row) => row.dataset.id));
  assert.deepEqual(names.sort(), ["zlib", "zstd", "zstd-once", "zstd:level=3"]);
  await page.locator(".answer", { hasText: /zstd-once [\d.]+ %: over [\d,]+ dispatches of 1 session/ }).waitFor();
  await page.getByRole("region", { name: "Dispatch types by arm" }).locator("tr[data-id=MESSAGE_CREATE]").waitFor();
  await page.getByRole("button", { name: "Start recording" }).click();
  await page.getByRole("button", { name: "Stop recording" }).waitFor();
  await until("dispatches", async () => /has [1-9]\d* dispatches of 1 session/.test(await page.locator(".answer").last().textContent()));
  await page.getByRole("button", { name: "Stop recording" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save file" }).click();
  const file = readFileSync(await (await download).path());
  assert.equal(file.subarray(0, 4).toString("hex"), "28b52ffd", "a frame of zstd");
  await page.getByRole("button", { name: "Stop dark launch" }).click();
  await page.locator(".facts-line", { hasText: "Stopped" }).waitFor();
  await page.context().close();
});

test("an experiment: started by the form, reported, ramped, stopped, removed", async () => {
  const page = await open({ path: "experiments" });
  await page.getByLabel("Name", { exact: true }).fill("level-3");
  await page.getByLabel("Accounts, %").fill("100");
  await page.getByRole("button", { name: "Start experiment" }).click();
  await page.locator(".title", { hasText: "level-3 running" }).waitFor();
  await page.locator(".answer", { hasText: "It has 100 % of the accounts of the layer default: 0 connections, on 1 node" }).waitFor();
  const bytes = page.getByRole("region", { name: "Bytes per dispatch" });
  await bytes.getByText("0 of 200 samples: no interval yet").waitFor();
  await page.getByLabel("Accounts, %").fill("50");
  await page.getByRole("button", { name: "Change share" }).click();
  await page.locator(".answer", { hasText: "It has 50 % of the accounts" }).waitFor();
  await page.getByRole("button", { name: "Stop experiment" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop experiment" }).click();
  await page.locator(".answer", { hasText: "Stopped by" }).waitFor();
  await page.getByRole("button", { name: "Remove experiment" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove experiment" }).click();
  await page.locator(".answer", { hasText: "No experiment runs." }).waitFor();
  await page.context().close();
});

test("every page shows this node: no fault, no complaint, no violation, no overflow", async () => {
  for (const options of [{ colorScheme: "light" }, { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true }]) {
    const page = await open(options);
    for (const path of PAGES) {
      await show(page, path);
      assert.equal(await page.locator(".fault").count(), 0, path);
      assert.equal(await overflow(page), 0, path);
      assert.deepEqual(await violations(page), [], path);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

test("the overview counts what a client receives", async () => {
  const page = await open();
  await page.locator(".status", { hasText: "Live" }).waitFor();
  const tile = (label) => page.locator(".tile", { hasText: label }).locator(".value");
  await until("one connection", async () => (await tile("Gateway connections").textContent()).trim() === "1");
  await until("deliveries", async () => Number.parseFloat(await tile("Deliveries").textContent()) > 0);
  await until("memory", async () => Number.parseFloat(await tile("Memory").textContent()) > 0);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a session is found, looked at, and closed; its client sees that", async () => {
  const page = await open({ path: "sessions" });
  const row = page.locator(".table tbody tr").first();
  await row.waitFor();
  assert.match(await row.textContent(), /connected.*json.*desktop/s);
  await page.locator(".table tbody a").first().click();
  await page.locator(".answer", { hasText: "It keeps up" }).waitFor();
  assert.match(page.url(), new RegExp(client.sessionId));
  await until("its events", async () => (await page.locator("table[aria-label=Events], [aria-label=Events] table").locator("tbody tr").count()) > 0);
  await page.getByRole("button", { name: "Close session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close session" }).click();
  const closes = await until("the close", async () => (await client.state()).closes.length > 0 && (await client.state()).closes);
  assert.deepEqual(closes, [4009]);
  await page.locator("h2", { hasText: "This session is gone" }).waitFor();
  await page.goto(`${node.origin}/dashboard/#/operations`);
  await page.locator(".audit", { hasText: "DELETE /v1/sessions/{session_id}" }).waitFor();
  await page.context().close();
});

test("a client that comes back is seen with its new session", async () => {
  const other = await node.connect({ returns: true });
  const old = other.sessionId;
  const page = await open({ path: `sessions/${old}` });
  await page.getByRole("button", { name: "Close session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close session" }).click();
  await page.locator("h2", { hasText: "This session is gone" }).waitFor();
  const id = await until("the new session", async () => { const { sessionId } = await other.state(); return sessionId !== old && sessionId; });
  await page.getByRole("region", { name: "Sessions of the account" }).locator(`tr[data-id="${id}"]`, { hasText: "connected" }).getByRole("link").click();
  await page.locator(".answer", { hasText: "It keeps up" }).waitFor();
  assert.ok(page.url().includes(id));
  await page.context().close();
});

test("the first paint and the first figures come soon", async () => {
  const page = await open();
  await page.locator(".tile .value").first().waitFor();
  const paints = [];
  for (let n = 0; n < 3; n++) {
    await page.reload();
    await page.locator(".tile .value").first().waitFor();
    paints.push(await page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0].startTime, performance.now()]));
  }
  const [paint, figures] = paints.sort(([a], [b]) => a - b)[0];
  console.log(`first paint after ${paint.toFixed(0)} ms, the figures of the overview after ${figures.toFixed(0)} ms`);
  assert.ok(paint < 1_000, `${paint} ms`);
  await page.context().close();
});

test("a demo reads its configuration again; a drained node ends", async () => {
  const page = await open({ path: "operations" });
  const act = async (name) => {
    await page.getByRole("button", { name }).click();
    await page.getByRole("dialog").getByRole("button", { name }).click();
  };
  await page.getByLabel("Find").fill("server.listen");
  await page.locator(".table tbody tr", { hasText: "server.listen" }).filter({ hasText: "command line, --listen" }).waitFor();
  await act("Reload configuration");
  await page.locator(".notice", { hasText: "nothing" }).waitFor();
  await act("Drain and stop node");
  await until("the end", () => node.process.exitCode !== null);
  assert.equal(node.process.exitCode, 0, node.log);
  await page.locator(".status", { hasText: "Disconnected" }).waitFor();
  await page.context().close();
});
