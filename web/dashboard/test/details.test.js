// What each page has for one thing, against invented figures: dispatch types, codecs, guilds, sessions; the way there with the keyboard.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accountId, guildId, KEY, Stub } from "./stub.js";
import { closeBrowser, go, until, violations, visit } from "./support.js";

let node;
before(async () => { node = await Stub.busy(); });
after(async () => {
  await closeBrowser();
  node.stop();
});

const open = (stub, options) => visit(stub, { key: KEY, ...options });

test("compression: what each codec saves and costs", async () => {
  const page = await open(node, { path: "compression" });
  await page.locator(".answer", { hasText: "of the uncompressed bytes, and compression holds 161 MB of memory" }).waitFor();
  await page.locator(".chart", { hasText: "Sent of uncompressed bytes, by codec" }).filter({ hasText: /zlib-stream \d+(\.\d+)? %/ }).waitFor();
  const time = page.locator(".chart", { hasText: "Time to compress one dispatch" });
  await time.getByRole("button", { name: "Table" }).click();
  await time.locator("tbody td", { hasText: "30 µs" }).first().waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("bandwidth: shares by dispatch type, sorted by another column", async () => {
  const page = await open(node, { path: "bandwidth" });
  await page.locator(".answer", { hasText: "% of" }).waitFor();
  const types = page.getByRole("region", { name: "Dispatch types" });
  const shares = await types.locator("tbody tr td:nth-child(3)").allTextContents();
  const sum = shares.reduce((all, text) => all + Number.parseFloat(text), 0);
  assert.ok(Math.abs(sum - 100) < 1, `${shares}`);
  // The bill: what zlib-stream would have cost, of the bytes without compression.
  await page.getByText("estimated from", { exact: false }).waitFor();
  await page.getByText("the CPU budget ended the sample of 1.").waitFor();
  assert.match(await page.locator('.table tr[data-id="MESSAGE_CREATE"] td:nth-child(9)').textContent(), /^33(\.\d)? %$/);
  await page.getByRole("button", { name: "Dispatches/s" }).click();
  await page.locator("th[aria-sort=descending]", { hasText: "Dispatches/s" }).waitFor();
  assert.equal(await types.locator("tbody tr").first().getAttribute("data-id"), "PRESENCE_UPDATE");
  // What each writer costs; one that wrote nothing has no row.
  const writers = page.getByRole("region", { name: "Writers of streams" });
  const cells = async (writer) => (await writers.locator(`tr[data-id="${writer}"]`).locator("td, th").allTextContents()).slice(1);
  assert.match((await cells("per-connection")).join("|"), /^3\|[\d.]+ [kMG]B\|20 %\|–\|–\|643 kB\|14 µs$/);
  assert.match((await cells("shared-match")).join("|"), /^57\|[\d.]+ [kMG]B\|20 %\|0\.\d+ ×\|[\d.]+ ×\|3\.0 kB\|600 ns$/);
  assert.equal(await writers.locator("tbody tr").count(), 2);
  await page.context().close();
});

test("dispatch types have colours of their own, the same on every node", async (t) => {
  const colours = async (stub) => {
    const page = await open(stub, { path: "bandwidth" });
    const bars = page.locator(".bars", { hasText: "Share of bytes" }).locator("li");
    await bars.first().waitFor();
    const found = await bars.evaluateAll((rows) => Object.fromEntries(rows.map((row) => [row.querySelector(".bar-label").textContent, row.querySelector("i").style.background])));
    await page.context().close();
    return found;
  };
  const other = await Stub.start({ grown: "MESSAGE_CREATE" });
  t.after(() => other.stop());
  const found = await colours(node);
  assert.deepEqual(found, await colours(other));
  assert.equal(new Set(Object.values(found)).size, Object.keys(found).length, JSON.stringify(found));
});

test("the page of a session shows the cost of its stream, and why it left its context", async () => {
  const page = await open(node, { path: "sessions" });
  await page.locator(".table tbody tr", { hasText: "zlib-stream" }).first().click();
  await page.locator("dd", { hasText: "3.0 kB of memory, 2.5 µs of CPU time a message (mean of 12); left its context: its events have many recipients" }).waitFor();
  await page.locator("dd", { hasText: "1.2 × of zlib-stream, 1.5 × of zstd-stream, over 800 frames" }).waitFor();
  await page.locator(".tile", { hasText: "written by shared-match for" }).waitFor();
  await page.context().close();
});

test("channels and guilds go by their names, with the id on hover; without a name by the id", async () => {
  const page = await open(node, { path: `guilds/${guildId(1)}` });
  const channels = page.locator(".bars", { hasText: "Events by channel" }).locator("li");
  await channels.first().waitFor();
  assert.deepEqual(await channels.locator(".bar-label").allTextContents(), ["general", "general", "1100000000000000003", "1100000000000000004"]);
  assert.equal(await channels.nth(1).getAttribute("title"), "311; id 1100000000000000002");
  await until("rates", async () => {
    const notes = await channels.locator("small").allTextContents();
    return JSON.stringify(notes.map((note) => note.trim())) === JSON.stringify(["0/s", "0/s, voice", "0/s, private thread", "0/s, deleted"]);
  });
  await go(page, "Sessions");
  await page.locator(".table tbody tr").first().click();
  const guilds = page.locator(".card", { hasText: "Subscriptions" }).locator("tbody tr td:first-child");
  await guilds.first().waitFor();
  assert.deepEqual((await guilds.allTextContents()).sort(), ["Guild 0", "Guild 1", guildId(2)].sort());
  await page.context().close();
});

test("with the keyboard alone: find a guild, open it, go to its sessions, open one", async () => {
  const page = await open(node, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  await page.locator("body").press("/");
  await page.keyboard.type("Guild 1");
  await page.locator("[role=status]", { hasText: "11 of 40" }).waitFor();
  await page.locator(`.table tr[data-id="${guildId(1)}"]`).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".title", { hasText: "Guild 10" }).waitFor();
  await page.getByRole("link", { name: "Its sessions" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "1 session is behind" }).waitFor();
  await page.locator(".table tr[data-id]").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "the client does not read" }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Events" }).locator("td", { hasText: "waits" }).count(), 4);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("closing a session needs a confirmation, and shows the account's other sessions after it", async () => {
  const id = node.session(7).id;
  const page = await open(node, { path: `sessions/${id}` });
  await page.getByRole("button", { name: "Close session" }).click();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await until("the dialog to close", async () => (await page.locator("dialog[open]").count()) === 0);
  assert.ok(!node.closed.has(id), "Escape answers no");
  await page.getByRole("button", { name: "Close session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close session" }).click();
  await page.locator(".title", { hasText: "This session is gone" }).waitFor();
  await page.getByText("None: its client has left").waitFor();
  assert.ok(node.closed.has(id));
  assert.ok(node.list().every(({ user_id }) => user_id !== accountId(7)));
  await page.context().close();
});
