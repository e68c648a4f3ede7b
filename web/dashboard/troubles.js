// Plants three troubles in a demo and finds each with the dashboard alone; prints what was clicked and how long it took, and fails where an answer
// is below the fold.
//
//   GUILDHALL=…/guildhall node troubles.js [SECONDS [FOLDER]]     default: 200 seconds of normal traffic before the third trouble, no pictures
//
// 1 a guild in which a script changes a channel's topic in a loop · 2 a client that does not read · 3 MESSAGE_CREATE
// becomes twice as large.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { Node } from "./test/node.js";
import { closeBrowser, until, visit } from "./test/support.js";

const [seconds = "200", folder] = process.argv.slice(2);
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const node = await Node.start({ rate: 0, settings: ["limits.write_stall_ms=300000"] });
const began = Date.now();
const { demo } = node;
let isEnding = false;

async function rest(token, method, path, body) {
  const send = () => fetch(`${node.origin}/api/v10${path}`, { method, headers: { authorization: token, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  // The node may close an idle connection just when it is used again.
  const response = await send().catch(send);
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Repeats `work` until the end. */
const loop = (everyMs, work) => (async () => { while (!isEnding) await Promise.all([work(), pause(everyMs)]).catch((error) => { if (!isEnding) throw error; }); })();

// Normal traffic: ten messages a second to eight clients that read.
let size = 200;
const loops = [loop(100, () => rest(demo.bot_token, "POST", `/channels/${demo.channel_ids[0]}/messages`, { content: "words ".repeat(size / 6) }))];
for (let index = 0; index < 8; index++) await node.connect();

/** Text of what an operator reads: it has to be in the window without scrolling. */
async function read(locator) {
  // A live update may draw it again between the two.
  let box = null;
  while (box === null) {
    await locator.waitFor();
    box = await locator.boundingBox();
  }
  const { y, height } = box;
  assert.ok(y >= 0 && y + height <= locator.page().viewportSize().height, `"${await locator.textContent()}" is below the fold: it ends at ${Math.round(y + height)}`);
  return locator.textContent();
}

/** Does the steps of one task, and says how long it took. */
async function task(name, work) {
  const page = await visit(node, { key: demo.admin_key });
  const steps = ["opens the overview"];
  const start = Date.now();
  const step = async (text, act) => {
    const result = await act();
    steps.push(`${text} (${((Date.now() - start) / 1_000).toFixed(1)} s)`);
    return result;
  };
  const found = await work(page, step);
  console.log(`\n${name}\n  ${steps.join("\n  ")}\n  found: ${found.trim().replaceAll(/\s+/g, " ")}\n  ${steps.length - 1} clicks or looks, ${((Date.now() - start) / 1_000).toFixed(1)} s`);
  if (folder) await page.screenshot({ path: `${folder}/trouble-${name[0]}.png` });
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

// 1
const noisy = await rest(demo.user_token, "POST", "/guilds", { name: "Tea house" });
const channel = await rest(demo.user_token, "POST", `/guilds/${noisy.id}/channels`, { name: "kettle", type: 0 });
let number = 0;
for (let index = 0; index < 8; index++) loops.push(loop(0, () => rest(demo.user_token, "PATCH", `/channels/${channel.id}`, { topic: `${number++} ${"steam ".repeat(160)}` })));
await pause(10_000);
await task("1 · A guild with an expensive command loop", async (page, step) => {
  await step("clicks Guilds: the sentence on top names the loudest guild", async () => {
    await page.getByRole("navigation").getByRole("link", { name: "Guilds" }).click();
    await read(page.locator(".answer", { hasText: "The loudest guild is Tea house" }));
  });
  await step("clicks its name", () => page.locator(".answer a").first().click());
  return step("reads the sentence on top, and how often each message comes", async () => {
    const answer = await read(page.locator(".answer", { hasText: "of this guild’s time" }));
    return `${answer} · ${await read(page.locator(".bars li", { hasText: "update channel" }))}`;
  });
});

// 2: it identifies as the owner of the loud guild, then never reads again.
const { hostname, port } = new URL(node.origin);
const deaf = connect({ host: hostname, port: Number(port) });
deaf.write(`GET /?v=10&encoding=json HTTP/1.1\r\nHost: ${hostname}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
await new Promise((resume) => deaf.once("data", resume));
const identify = Buffer.from(JSON.stringify({ op: 2, d: { token: demo.user_token, properties: { os: "linux", browser: "Discord Client", device: "" } } }));
deaf.write(Buffer.concat([Buffer.from([0x81, 0x80 | 126, identify.length >> 8, identify.length & 255, 0, 0, 0, 0]), identify]));
await pause(500);
deaf.pause();
await task("2 · A client that does not read", async (page, step) => {
  await step("clicks Sessions: the sentence on top reports one that is behind", async () => {
    await page.getByRole("navigation").getByRole("link", { name: "Sessions" }).click();
    await page.waitForFunction(() => /1 session is behind/.test(document.querySelector(".answer")?.textContent ?? ""), undefined, { timeout: 240_000 });
    await read(page.locator(".answer"));
  });
  await step("clicks the first row: the table is sorted by backlog", () => page.locator(".table tbody a").first().click());
  return step("reads the sentence on top", () => read(page.locator(".answer", { hasText: "does not read" })));
});
deaf.destroy();

// 3
await pause(Math.max(0, Number(seconds) * 1_000 - (Date.now() - began)));
// A dispatch is twice as large when its text grows by as many characters as the whole dispatch has bytes.
const { types } = await (await fetch(`${node.origin}/v1/node/bandwidth`, { headers: { authorization: `Bearer ${demo.admin_key}` } })).json();
const sum = (of) => types.find(({ name }) => name === "MESSAGE_CREATE").ways.reduce((all, way) => all + way[of], 0);
size += Math.round(sum("raw_bytes_total") / sum("count_total"));
await pause(70_000);
await task("3 · A dispatch type that has become twice as large", async (page, step) => {
  await step("reads the findings on the overview, and clicks Bandwidth in one", async () => {
    const finding = page.locator(".findings li", { hasText: "MESSAGE_CREATE has grown" });
    await read(finding);
    await finding.getByRole("link").click();
  });
  return step("reads the sentence on top, and the marked row of the table", async () => {
    await page.locator(".table tr[data-id=MESSAGE_CREATE]", { hasText: "▲" }).waitFor();
    const answer = await read(page.locator(".grown"));
    const [, shown] = /: ([\d.]+) ×/.exec(answer);
    assert.ok(Math.abs(shown - 2) < 0.1, `twice as large, but the page says ${shown} ×`);
    return answer;
  });
});
isEnding = true;
await Promise.all(loops);
await closeBrowser();
await node.stop();
