// Two guilds: the one that is not on the screen is passive, and its marks come and go.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, messages, Node, say, until, visit } from "./support.js";

let node, page, second;

before(async () => {
  // 300 members: a quarter of them is in the second guild, and 50 are enough to be passive. With few connections shared-match sends more
  // than a library would, which the meter explains.
  node = await Node.start({ members: 300, settings: ["limits.rest_rate_percent=0", "limits.passive_update_interval_ms=400", "codec.streams=shared-match"] });
  second = await node.second();
  page = await visit(node);
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const tile = () => page.locator(`.rail-item[title="${second.name}"]`);
const received = (name) => page.locator(".meter tbody tr", { has: page.locator("th", { hasText: new RegExp(`^${name}$`) }) }).locator("td").first();

test("a visitor is in two guilds, and what was there before is read", async () => {
  assert.equal(await page.locator(".rail-item:not(.home)").count(), 2);
  assert.equal(await page.locator(".rail-item .pip, .channel .pip").count(), 0);
});

test("the meter names the events for which a library would have made fewer bytes", async () => {
  await page.locator(".meter-strip").click();
  const why = page.locator(".meter .why");
  await why.waitFor();
  assert.match((await why.innerText()).replaceAll(/\s+/g, " "), /^Why more than z(lib|std)-stream\? It is [\d.,]+ k?B more, most of it in [A-Z_]+ \(/);
  // Bytes of the bars (zlib, zstd, received) and of the line.
  const shown = () => page.evaluate(() => {
    const digits = (text) => Number(text.replace(/\D/g, ""));
    const [, zlib, zstd, received] = [...document.querySelectorAll(".meter .bar-value")].map(({ title }) => digits(title));
    const [, number, unit] = document.querySelector(".meter .why")?.textContent.match(/It is ([\d.,]+)\s(k?B) more/) ?? [];
    return { received, more: received - Math.min(zlib, zstd), said: number === undefined ? undefined : Number(number.replaceAll(",", "")) * (unit === "kB" ? 1_000 : 1) };
  });
  const before = await shown();
  for (let n = 0; n < 20; n++) await say(page, `the line follows, ${n}: ${Math.sin(n)}`);
  await until("the line and the bars to agree on other messages", async () => {
    const { received, more, said } = await shown();
    const isFitting = said === undefined ? more <= received * 0.02 : Math.abs(said - more) <= Math.max(20, more * 0.02);
    return received > before.received + 1_000 && more !== before.more && isFitting;
  });
  await page.locator(".meter-strip").click();
});

test("a message in the other guild marks it by a summary, not by itself", async () => {
  await page.locator(".meter-strip").click();
  await second.say(second.channels[0], "who has the key?");
  await second.say(second.channels[0], "never mind, found it");
  await tile().locator(".pip").waitFor();
  assert.equal(await tile().getAttribute("aria-label"), `${second.name}, unread`);
  await received("PASSIVE_UPDATE_V2").waitFor();
  await page.locator(".meter p", { hasText: "with new messages, of which none was sent" }).waitFor();
});

test("the guild is opened: the channel is marked, read, and the marks go", async () => {
  await second.say(second.channels[1], "one more, elsewhere");
  await tile().click();
  await message(page, "never mind, found it").waitFor();
  await page.locator(".channel.unread", { hasText: second.channels[1].name }).waitFor();
  await until("the mark of the channel on the screen to go", async () => (await page.locator(".channel.current.unread").count()) === 0);
  await page.locator(`.channel[data-channel="${second.channels[1].name}"]`).click();
  await message(page, "one more, elsewhere").waitFor();
  await until("all marks to go", async () => (await page.locator(".channel.unread").count()) === 0);
  await page.locator(`.rail-item[title="The Lantern Society"]`).click();
  await page.locator(`.rail-item.current[title="The Lantern Society"]`).waitFor();
  await until("no mark on the guild", async () => (await tile().locator(".pip").count()) === 0);
});

test("marks survive a reload, and so does what was read", async () => {
  await second.say(second.channels[2], "before the reload");
  await tile().locator(".pip").waitFor();
  await page.reload();
  await page.locator("#composer").waitFor();
  await tile().locator(".pip").waitFor();
  await tile().click();
  await page.locator(`.channel[data-channel="${second.channels[2].name}"]`).click();
  await message(page, "before the reload").waitFor();
  await until("all marks to go", async () => (await page.locator(".channel.unread").count()) === 0);
});

test("an open guild is active: messages arrive at once, and once", async () => {
  await second.say(second.channels[2], "seen at once");
  await message(page, "seen at once").waitFor();
  await say(page, "and answered");
  assert.equal(await messages(page).filter({ hasText: "seen at once" }).count(), 1);
  await node.say(0, "in the first guild now");
  await page.locator(`.rail-item[title="The Lantern Society"]`).locator(".pip").waitFor();
});

test("the console is silent", () => assert.deepEqual(page.complaints, []));
