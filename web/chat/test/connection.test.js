// What becomes of a connection that breaks: nothing is lost, and people can follow it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, Node, say, until, visit } from "./support.js";

let node, page;

before(async () => {
  node = await Node.start();
  page = await visit(node);
  await page.locator(".meter-strip").click();
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const log = (text) => page.locator(".log li", { hasText: text }).first();
const numbers = async (prefix) => (await page.locator(".content", { hasText: prefix }).allInnerTexts()).map((text) => Number(/\d+/.exec(text.slice(prefix.length))?.[0]));
const range = (count) => Array.from({ length: count }, (_, n) => n);

async function sayMany(prefix, from, to) {
  for (let n = from; n < to; n++) await node.say(0, `${prefix} ${n}`);
}

test("a broken connection is resumed, and nothing is lost", async () => {
  await sayMany("drop", 0, 5);
  await message(page, "drop 4").waitFor();
  const said = sayMany("drop", 5, 30);
  await page.getByRole("button", { name: "Break the connection" }).click();
  await said;
  await message(page, "drop 29").waitFor();
  await log("none lost").waitFor();
  assert.deepEqual(await numbers("drop"), range(30));
});

test("each codec carries the session on", async () => {
  for (const [codec, name] of [["zlib-stream", "zlib-stream"], ["none", "plain JSON"], ["zstd-stream", "zstd-stream"]]) {
    await page.getByRole("button", { name, exact: true }).click();
    await log(`Resumed by ${name}`).waitFor();
    await node.say(0, `by ${codec}`);
    await message(page, `by ${codec}`).waitFor();
  }
  const table = page.getByRole("region", { name: "Connections of this page" });
  await until("a row of each connection", async () => (await table.locator("tbody tr").count()) >= 4);
  // Compressed bytes are fewer, by what was received and by what the page computes, once there is something to refer to.
  await sayMany("filler", 0, 40);
  const bars = await until("fewer bytes", async () => {
    const shares = (await page.locator(".bar-row .bar-share").allInnerTexts()).map((share) => Number.parseInt(share));
    return shares.length === 3 && shares.slice(1).every((share) => share > 0 && share < 60) && shares;
  });
  assert.equal(bars[0], 100);
});

test("offline for a while: the page says so, and catches up", async () => {
  await page.context().setOffline(true);
  // A network that is gone tells nobody; the heartbeat or the browser notices. Here the socket is cut as well.
  await page.getByRole("button", { name: "Break the connection" }).click();
  await page.locator(".banner", { hasText: "Disconnected" }).waitFor();
  await sayMany("offline", 0, 20);
  await page.context().setOffline(false);
  await message(page, "offline 19").waitFor();
  await until("the banner to go", async () => (await page.locator(".banner").count()) === 0);
  assert.deepEqual(await numbers("offline"), range(20));
});

test("what is written while the node is away is sent again by hand, and once", async () => {
  await node.end("SIGKILL");
  await page.locator(".banner", { hasText: "Disconnected" }).waitFor();
  await page.locator("#composer").fill("into the void");
  await page.keyboard.press("Enter");
  await page.locator(".message.failed", { hasText: "into the void" }).waitFor();
  await node.run();
  await until("the banner to go", async () => (await page.locator(".banner").count()) === 0);
  await page.locator(".message.failed").getByRole("button", { name: "Send again" }).click();
  await until("the message to arrive", async () => (await page.locator(".message:not(.failed):not(.sending)", { hasText: "into the void" }).count()) === 1);
});

test("kill -9 of the node: what was said meanwhile is there", async () => {
  await sayMany("kill", 0, 3);
  await message(page, "kill 2").waitFor();
  await node.end("SIGKILL");
  await node.run();
  await sayMany("kill", 3, 8);
  await message(page, "kill 7").waitFor();
  assert.deepEqual(await numbers("kill"), range(8));
  await say(page, "and on we go");
});

test("a node that drains hands the session over", async () => {
  await sayMany("drain", 0, 3);
  await message(page, "drain 2").waitFor();
  await node.end("SIGTERM");
  await node.run();
  await sayMany("drain", 3, 8);
  await message(page, "drain 7").waitFor();
  assert.deepEqual(await numbers("drain"), range(8));
});

test("the console has nothing but the network's own complaints", () => {
  const own = page.complaints.filter((text) => !/WebSocket connection to|ERR_CONNECTION_REFUSED|ERR_INTERNET_DISCONNECTED|Failed to load resource/.test(text));
  assert.deepEqual(own, []);
});
