// What becomes of a connection that breaks: nothing is lost, and people can follow it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, messages, Network, Node, say, until, visit } from "./support.js";

let node, network, page;

before(async () => {
  network = await Network.open();
  node = await Node.start({ network });
  page = await visit(node, { through: network });
  await page.locator(".meter-strip").click();
});
after(async () => {
  await closeBrowser();
  network?.close();
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
    return shares.length === 4 && shares.slice(1).every((share) => share > 0 && share < 60) && shares;
  });
  assert.equal(bars[0], 100);
});

test("offline for 30 s: the page shows it, resumes, and nothing is lost or doubled", async () => {
  await sayMany("offline", 0, 3);
  const first = await node.say(0, "offline 3");
  const gone = await node.say(0, "offline: this one goes");
  await message(page, "this one goes").waitFor();
  const before = await page.locator(".log li", { hasText: "New session" }).count();
  network.cut();
  const cutAt = Date.now();
  await page.locator(".banner", { hasText: "Disconnected" }).waitFor();
  // Everything that can happen to a message happens meanwhile.
  for (let n = 4; n < 34; n++) {
    await node.say(0, `offline ${n}`);
    await new Promise((resume) => setTimeout(resume, Math.max(0, cutAt + (n - 3) * 1000 - Date.now())));
  }
  const channel = node.demo.channel_ids[0];
  await node.rest("PATCH", `/channels/${channel}/messages/${first.id}`, { content: "offline 3, edited" });
  await node.rest("PUT", `/channels/${channel}/messages/${first.id}/reactions/${encodeURIComponent("🌱")}/@me`);
  await node.rest("DELETE", `/channels/${channel}/messages/${gone.id}`);
  network.mend();
  await message(page, "offline 33").waitFor();
  await until("the banner to go", async () => (await page.locator(".banner").count()) === 0);
  assert.deepEqual(await numbers("offline"), range(34));
  await message(page, "offline 3, edited").locator(".edited").waitFor();
  await message(page, "offline 3, edited").locator(".reactions button", { hasText: "🌱" }).waitFor();
  await until("the deletion", async () => (await messages(page).filter({ hasText: "this one goes" }).count()) === 0);
  assert.equal(await page.locator(".log li", { hasText: "New session" }).count(), before, "the session was resumed");
  const resumed = await page.locator(".log li", { hasText: "Resumed" }).first().innerText();
  const [, seconds] = /([\d.]+) s: \d+ missed events replayed, none lost/.exec(resumed) ?? [];
  assert.ok(Number(seconds) >= 30, resumed);
});

test("a socket that is reset in the middle of a burst", async () => {
  for (let round = 0; round < 4; round++) {
    const said = sayMany("reset", round * 15, round * 15 + 15);
    await message(page, `reset ${round * 15 + 4}`).waitFor();
    network.cut();
    network.mend();
    await said;
    await message(page, `reset ${round * 15 + 14}`).waitFor();
  }
  assert.deepEqual(await numbers("reset"), range(60));
});

test("a message that fails while the node is away is sent again on request, once", async () => {
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

test("kill -9 of the node: messages of that time appear", async () => {
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
  const own = page.complaints.filter((text) => !/WebSocket connection to|ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INTERNET_DISCONNECTED|Failed to load resource/.test(text));
  assert.deepEqual(own, []);
});
