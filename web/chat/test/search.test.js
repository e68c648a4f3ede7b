// Search: words and filters, results with author, channel and time, and the way to a message of long ago.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, messages, Node, open, overflow, say, until, violations, visit } from "./support.js";

// The demo's own messages have none of these words.
let node, page, old;

before(async () => {
  node = await Node.start();
  page = await visit(node);
  old = await node.say(0, "the **messing** zuglamp is in the quarx");
  for (let n = 0; n < 60; n++) await node.say(0, `fuellsel number ${n}`);
  await node.say(1, "a kupfrig zuglamp, <https://example.net/kupfrig>");
  await node.rest("PUT", `/channels/${node.demo.channel_ids[0]}/messages/pins/${old.id}`);
  await say(page, "my own zuglamp");
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const pane = (of = page) => of.getByRole("complementary", { name: "Search messages" });
const box = (of = page) => of.getByRole("combobox", { name: "Search messages" });
const texts = () => pane().locator(".said").allInnerTexts();
/** Searches until the results are these: the index follows the messages. */
async function find(text, expected) {
  let found;
  await until(`results of ${text}`, async () => {
    await box().fill(text);
    await pane().getByRole("button", { name: /^Search/ }).click();
    await pane().getByRole("button", { name: "Search", exact: true }).waitFor();
    found = await texts();
    return JSON.stringify(found) === JSON.stringify(expected);
  }).catch((error) => { throw new Error(`${error.message}; found ${JSON.stringify(found)}`); });
}

test("words: results with author, channel and time; a click leads to a message of long ago", async () => {
  await page.getByRole("button", { name: "Search messages" }).click();
  await until("focus in the box", () => page.evaluate(() => document.activeElement?.getAttribute("role") === "combobox"));
  assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
  await find("zuglamp quarx", ["the messing zuglamp is in the quarx"]);
  await find("zuglamp", ["my own zuglamp", "a kupfrig zuglamp, https://example.net/kupfrig", "the messing zuglamp is in the quarx"]);
  await pane().getByRole("status").getByText("3 messages, the newest first").waitFor();
  const hit = pane().locator(".found-message", { hasText: "kupfrig" });
  assert.match((await hit.innerText()).replaceAll(/\s+/g, " "), /^random Today, .* Guildhall Bot a kupfrig zuglamp/);
  assert.deepEqual(await hit.locator("mark").allInnerTexts(), ["zuglamp"]);
  assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
  await page.reload();
  await message(page, "my own zuglamp").waitFor();
  assert.equal(await messages(page).filter({ hasText: "in the quarx" }).count(), 0, "it is not loaded");
  await page.getByRole("button", { name: "Search messages" }).click();
  await find("quarx", ["the messing zuglamp is in the quarx"]);
  await pane().locator(".found-message").click();
  const row = message(page, "in the quarx");
  await until("focus on the message", () => row.evaluate((element) => document.activeElement === element));
  await message(page, "fuellsel number 0").waitFor();
  await find("kupfrig", ["a kupfrig zuglamp, https://example.net/kupfrig"]);
  await pane().locator(".found-message").click();
  await page.locator(".channel-head h2", { hasText: "random" }).waitFor();
  await until("focus on the other message", () => message(page, "a kupfrig").evaluate((element) => document.activeElement === element));
  await open(page, "general");
});

test("filters: from, in, has, pinned, before, after; names are completed", async () => {
  await find("zuglamp from:me", ["my own zuglamp"]);
  await find("zuglamp in:random", ["a kupfrig zuglamp, https://example.net/kupfrig"]);
  await find("has:link zuglamp", ["a kupfrig zuglamp, https://example.net/kupfrig"]);
  await find("zuglamp pinned:yes", ["the messing zuglamp is in the quarx"]);
  await find("zuglamp before:2020-01-01", []);
  await find("zuglamp after:2020-01-01 from:guildhall_bot", ["a kupfrig zuglamp, https://example.net/kupfrig", "the messing zuglamp is in the quarx"]);
  await box().fill("zuglamp ");
  await pane().getByRole("button", { name: "in:" }).click();
  await page.keyboard.type("ran");
  await pane().getByRole("option", { name: "random" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  assert.equal(await box().inputValue(), "zuglamp in:random ");
  await page.keyboard.type("from:guildhall");
  await pane().getByRole("option", { name: /Guildhall Bot/ }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await box().inputValue(), "zuglamp in:random from:guildhall_bot ");
  await page.keyboard.press("Enter");
  await until("the result", async () => JSON.stringify(await texts()) === JSON.stringify(["a kupfrig zuglamp, https://example.net/kupfrig"]));
});

test("a filter that cannot be used names the remedy; a search without a result is reported", async () => {
  for (const [text, fault] of [["from:nobodyatall", "No member is called “nobodyatall”."], ["in:nowhere", "No channel that you can read is called “nowhere”."], ["has:gold", "“has:” takes image, video"], ["before:soon", "“before:” takes a day such as"], ["pinned:", "“pinned:” needs a value."], ["  ", "Write a word, or choose a filter."]]) {
    await box().fill(text);
    await pane().getByRole("button", { name: "Search", exact: true }).click();
    await pane().getByRole("alert").getByText(fault).waitFor();
  }
  await find("zzzunheardof", []);
  await pane().getByRole("status").getByText("No message fits.").waitFor();
});

test("pages: more are shown on request", async () => {
  await find("fuellsel", Array.from({ length: 25 }, (_, n) => `fuellsel number ${59 - n}`));
  await pane().getByText("60 messages").waitFor();
  await pane().getByRole("button", { name: "Show more" }).click();
  await until("two pages", async () => (await texts()).length === 50);
  await pane().getByRole("button", { name: "Show more" }).click();
  await until("all", async () => (await texts()).length === 60);
  assert.equal(await pane().getByRole("button", { name: "Show more" }).count(), 0);
  await page.locator(".search-pane .pane-head h2").click();
  await box().press("Escape");
  await until("the pane to close", async () => (await pane().count()) === 0);
  await until("focus in the message box", () => page.evaluate(() => document.activeElement?.id === "composer"));
});

test("on a phone, in the dark: the results are a view of their own", async () => {
  const phone = await visit(node, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme: "dark" });
  await phone.getByRole("button", { name: "Search messages" }).tap();
  await box(phone).fill("quarx");
  await phone.keyboard.press("Enter");
  await phone.locator(".found-message").waitFor();
  assert.deepEqual([await violations(phone), await overflow(phone)], [[], 0]);
  await phone.locator(".found-message").tap();
  await message(phone, "in the quarx").waitFor();
  assert.equal(await phone.locator(".search-pane").isVisible(), false);
  assert.deepEqual(phone.complaints, []);
  await phone.context().close();
});

test("the console is silent", () => assert.deepEqual(page.complaints, []));
