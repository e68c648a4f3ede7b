// The overview against invented figures: nodes of a cluster and their moves, live figures, troubles, wall times.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KEY, Stub } from "./stub.js";
import { closeBrowser, overflow, until, violations, visit } from "./support.js";

let node;
before(async () => { node = await Stub.busy(); });
after(async () => {
  await closeBrowser();
  node.stop();
});

const open = (stub, options) => visit(stub, { key: KEY, ...options });

/** From now on the page's requests name this node. Requests from before the click may have arrived after it. */
async function onlyRequests(stub, node) {
  stub.nodesAsked.length = 0;
  await until("requests", () => stub.nodesAsked.length > 2);
  assert.ok(stub.nodesAsked.every((named) => named === node), `${stub.nodesAsked}`);
}

test("the overview lists the nodes of a cluster, and a click shows another one", async (t) => {
  const nodes = ["berlin-1", "berlin-2"].map((name, number) => ({ number, name, url: "ws://x", version: "0.1.0", state: number ? "draining" : "active", own: number === 0 }));
  const stub = await Stub.start({ nodes });
  t.after(() => stub.stop());
  const page = await open(stub);
  const list = page.getByRole("region", { name: "Nodes of the cluster" }).getByRole("listitem");
  await list.filter({ hasText: "berlin-2 (number 1): draining" }).waitFor();
  assert.equal(await page.locator(".brand").textContent(), "Guildhall");
  assert.ok(stub.nodesAsked.every((node) => node === null));
  await list.getByRole("link", { name: "berlin-2" }).click();
  await list.filter({ hasText: "berlin-2 (number 1): draining, version 0.1.0; this page shows it" }).waitFor();
  await page.locator(".status", { hasText: "Live" }).waitFor();
  assert.equal(await page.locator(".brand").textContent(), "Guildhall · node 1");
  await onlyRequests(stub, "1");
  assert.equal(await overflow(page), 0);
  assert.deepEqual(await violations(page), []);
  await list.getByRole("link", { name: "berlin-1" }).click();
  await list.filter({ hasText: "berlin-1 (number 0): active, version 0.1.0; this page shows it; it answers this page" }).waitFor();
  await onlyRequests(stub, null);
  await page.context().close();
});

test("the overview shows guilds on their way, the last moves with their reasons, and the load of each node", async (t) => {
  const nodes = ["berlin-1", "berlin-2"].map((name, number) => ({ number, name, url: "ws://x", version: "0.1.0", state: "active", own: number === 0, load: { workers_busy_percent: [3, number ? 22 : 70.6], memory_bytes: 4e9, memory_bytes_max: 1e10, balance: true } }));
  const reason = "its worker is busy 71 % at node 0 and 22 % at node 1; the guild takes 18 %";
  const move = (id, from, to) => ({ guild_id: `11000000000000000${id}`, from, to, reason, bytes: 12_345_678, rounds: 3 });
  const moves = {
    leaving: [{ ...move("01", 0, 1), step: "freeze", frozen: true, age_ms: 1_200 }, { ...move("02", 1, 0), reason: "its node drains", step: "members", frozen: false, age_ms: 40_000, rounds: 0 }],
    ended: [
      { ...move("03", 0, 1), ended_ago_ms: 180_000, total_ms: 812, frozen_ms: 4, fault: null },
      { ...move("04", 1, 0), reason: "it was requested", ended_ago_ms: 900_000, total_ms: 2_004, frozen_ms: 0, bytes: 0, rounds: 0, fault: "the guild had work under way that did not end within 2 seconds: try again later" },
    ],
    missing: [],
  };
  const stub = await Stub.start({ nodes, moves });
  t.after(() => stub.stop());
  for (const options of [{ viewport: { width: 1440, height: 900 } }, { viewport: { width: 390, height: 844 } }]) {
    const page = await open(stub, options);
    const list = page.getByRole("region", { name: "Nodes of the cluster" }).getByRole("listitem");
    await list.filter({ hasText: "berlin-1 (number 0): active, version 0.1.0, busiest guild worker 70.6 %, memory 40 % in use; this page shows it" }).waitFor();
    const region = page.getByRole("region", { name: "Moves of guilds" });
    await region.getByText("2 guilds are on the way. The last move ended 3 min ago; requests waited 4 ms.").waitFor();
    const items = region.getByRole("listitem");
    await page.getByText("2 guilds move to another node now").waitFor();
    await items.filter({ hasText: "requests wait for the last changes" }).filter({ hasText: "12.3 MB, 3 rounds" }).filter({ hasText: reason }).waitFor();
    await items.filter({ hasText: "sends its members" }).filter({ hasText: "for 40 s" }).waitFor();
    await items.filter({ hasText: "requests waited 4 ms" }).filter({ hasText: "took 812 ms, 3 min ago" }).waitFor();
    await items.filter({ hasText: "not moved" }).filter({ hasText: "it was requested; it stayed: the guild had work under way" }).waitFor();
    assert.equal(await items.filter({ hasText: "took 812 ms" }).getByRole("link").getAttribute("href"), "./?node=1#/guilds/1100000000000000003", "the page of the guild is at its owner");
    assert.equal(await overflow(page), 0);
    assert.deepEqual(await violations(page), []);
    if (process.env.PICTURES) { await region.screenshot({ path: `${process.env.PICTURES}/moves-${options.viewport.width}.png` }); await page.screenshot({ path: `${process.env.PICTURES}/top-${options.viewport.width}.png` }); }
    await page.context().close();
  }
  stub.moves = { leaving: [], ended: [], missing: [1] };
  const page = await open(stub);
  const region = page.getByRole("region", { name: "Moves of guilds" });
  await region.getByText("No guild is on its way. None has moved since the nodes started").waitFor();
  await region.getByText("Moves of berlin-2 are missing: it does not answer.").waitFor();
  await page.context().close();
});

test("the overview is live, has a table behind each chart, and other ranges", async () => {
  const page = await open(node);
  await page.locator(".status", { hasText: "Live" }).waitFor();
  const tile = page.locator(".tile", { hasText: "Deliveries" }).locator(".value");
  const first = await tile.getAttribute("title");
  await until("another sample", async () => (await tile.getAttribute("title")) !== first);
  await page.locator(".chart", { hasText: "CPU by loop" }).getByRole("button", { name: "Table" }).click();
  await page.locator(".chart .figures tbody tr").first().waitFor();
  // REST requests wait most of their time: 109 at once are no cores, and no trouble.
  const loops = page.locator(".chart", { hasText: "CPU by loop" }).locator(".figures");
  assert.match(await loops.textContent(), /partition/);
  assert.doesNotMatch(await loops.textContent(), /rest/);
  assert.equal(await page.locator(".findings", { hasText: "rest" }).count(), 0);
  await page.getByRole("button", { name: "1 h" }).click();
  await page.locator(".segments [aria-pressed=true]", { hasText: "1 h" }).waitFor();
  await until("an hour", () => node.asked.some((path) => path === "GET v1/node/history"));
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("troubles are findings: a relay that does not deliver, and a type that has grown", async (t) => {
  const ill = await Stub.start({ ghosts: 1, grown: "TYPING_START" });
  t.after(() => ill.stop());
  const page = await open(ill);
  await page.locator(".findings li.bad", { hasText: "1 relay does not deliver" }).waitFor();
  await page.locator(".findings li.warn", { hasText: /TYPING_START has grown to 2 × its size: 190 B 5[5-7] min ago, 380 B in the last minute/ }).getByRole("link").click();
  await page.locator(".grown", { hasText: /from 190 B 5[5-7] min ago to 380 B each in the last minute/ }).waitFor();
  await page.locator(".bars", { hasText: "Growth by dispatch type" }).locator("li", { hasText: "TYPING_START" }).filter({ hasText: "2 × 190 B → 380 B" }).waitFor();
  await page.locator(".table tr[data-id=TYPING_START]", { hasText: "▲ 2 ×" }).waitFor();
  assert.equal(await page.locator(".table td.warn").count(), 1);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the overview has the wall time of routes and message types", async () => {
  const page = await open(node);
  const table = page.getByRole("region", { name: "Message types" });
  const route = table.locator("tr", { hasText: "POST /api/channels/{channel_id}/messages" });
  await route.waitFor();
  await until("a rate", async () => /REST.*3[4-8](\.\d)?\sms9\sms54\sms/s.test(await route.textContent()));
  await table.getByRole("button", { name: "p99" }).click();
  assert.match(await table.locator("tbody tr").first().textContent(), /POST/);
  await page.context().close();
});
