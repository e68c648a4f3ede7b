// Two browsers talk to each other.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, messages, newPage, Node, open, say, until, visit } from "./support.js";

let node, ana, ben;

before(async () => {
  node = await Node.start();
  [ana, ben] = [await visit(node), await visit(node)];
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

test("both read what the other writes, at once", async () => {
  await say(ana, "hello from ana");
  await message(ben, "hello from ana").waitFor();
  await say(ben, "and hello from ben");
  await message(ana, "and hello from ben").waitFor();
  assert.equal(await ana.locator(".message", { hasText: "hello from ana" }).count(), 1, "no message is shown twice");
});

test("edit, react, reply and delete", async () => {
  await say(ana, "a tpyo");
  await message(ana, "a tpyo").hover();
  await message(ana, "a tpyo").getByRole("button", { name: "Edit" }).click();
  await ana.getByLabel("Edit the message").fill("a typo");
  await ana.keyboard.press("Enter");
  await message(ben, "a typo").locator(".edited").waitFor();

  const theirs = message(ben, "a typo");
  await theirs.hover();
  await theirs.getByRole("button", { name: "React" }).click();
  await ben.getByRole("button", { name: "React with 🎉" }).click();
  const reaction = message(ana, "a typo").locator(".reactions button");
  await reaction.waitFor();
  assert.match(await reaction.innerText(), /🎉\s*1/);
  await reaction.click();
  await until("two reactions", async () => /2/.test(await theirs.locator(".reactions button").innerText()));
  await reaction.click();
  await until("one reaction", async () => /1/.test(await theirs.locator(".reactions button").innerText()));

  await theirs.hover();
  await theirs.getByRole("button", { name: "Reply" }).click();
  await say(ben, "a reply to it");
  await message(ana, "a reply to it").locator(".quoted", { hasText: "a typo" }).waitFor();

  await message(ana, "a typo").hover();
  await message(ana, "a typo").getByRole("button", { name: "More" }).click();
  await ana.getByRole("menuitem", { name: "Delete message" }).click();
  await ana.getByRole("dialog", { name: "Delete the message" }).getByRole("button", { name: "Delete message" }).click();
  await message(ben, "a reply to it").locator(".quoted", { hasText: "was deleted" }).waitFor();
  assert.equal(await ben.locator(".content", { hasText: "a typo" }).count(), 0);
});

test("the preview of a reply has the text without its markup", async () => {
  const { id } = await node.say(0, "**bold** _slanted_ `a*b` [link](https://example.net/) snake_case_name ||secret||\n> quoted\n- item");
  await node.say(0, "a preview of it", { message_reference: { message_id: id } });
  const quoted = message(ana, "a preview of it").locator(".quoted span");
  await quoted.waitFor();
  assert.equal(await quoted.innerText(), "bold slanted a*b link snake_case_name ▒▒▒▒ quoted item");
});

test("a thread begins at a message", async () => {
  await say(ana, "let us discuss lamps");
  const row = message(ana, "let us discuss lamps");
  await row.hover();
  await row.getByRole("button", { name: "More" }).click();
  await ana.getByRole("menuitem", { name: "Start a thread" }).click();
  await ana.getByLabel("Name of the thread").fill("Lamps");
  await ana.getByRole("button", { name: "Start thread" }).click();
  await ana.locator(".channel-head h2", { hasText: "Lamps" }).waitFor();
  await say(ana, "brass ones first");
  await message(ben, "let us discuss lamps").locator(".thread-chip").click();
  await message(ben, "brass ones first").waitFor();
  await say(ben, "copper is warmer");
  await message(ana, "copper is warmer").waitFor();
  await Promise.all([open(ana, "general"), open(ben, "general")]);
});

test("pinned messages are previewed without their markup, and lead to the message", async () => {
  const pin = (method, { id }) => node.rest(method, `/channels/${node.demo.channel_ids[3]}/messages/pins/${id}`);
  const rules = await node.say(3, "**Read** this _first_: [the rules](https://example.net/rules) ||no peeking||\n> `x < y`");
  const hostile = await node.say(3, "<img src=x onerror=window.hit=1> stays text");
  for (let n = 0; n < 40; n++) await node.say(3, `far below ${n}`);
  await pin("PUT", rules);
  const name = (await node.rest("GET", `/channels/${node.demo.channel_ids[3]}`)).name;
  await open(ana, name);
  await ana.getByRole("button", { name: "Pinned messages" }).click();
  const pins = ana.getByRole("dialog", { name: "Pinned messages" });
  const previews = pins.locator("button > span");
  await previews.first().waitFor();
  assert.deepEqual(await previews.allInnerTexts(), ["Read this first: the rules ▒▒▒▒ x < y"]);

  // The open list follows pins, unpins and edits.
  await pin("PUT", hostile);
  await until("the second pin", async () => (await previews.count()) === 2);
  assert.equal(await previews.first().innerText(), "<img src=x onerror=window.hit=1> stays text");
  await pin("DELETE", hostile);
  await until("the second pin to go", async () => (await previews.count()) === 1);
  await node.rest("PATCH", `/channels/${node.demo.channel_ids[3]}/messages/${rules.id}`, { content: "**Read** this _again_" });
  await until("the preview to change", async () => (await previews.first().innerText()) === "Read this again");

  await previews.first().click();
  await until("the dialog to close", async () => (await pins.count()) === 0);
  const row = message(ana, "this again");
  await until("focus on the message", () => row.evaluate((element) => document.activeElement === element));
  await row.locator(".pinned").waitFor();
  assert.ok(await row.evaluate((element) => { const { top, bottom } = element.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }), "the message is in view");
  assert.equal(await ana.evaluate(() => window.hit), undefined);

  await node.rest("DELETE", `/channels/${node.demo.channel_ids[3]}/messages/${rules.id}`);
  await ana.getByRole("button", { name: "Pinned messages" }).click();
  await pins.locator(".empty").waitFor();
  await ana.keyboard.press("Escape");
  await open(ana, "general");
});

test("unread marks come and go, and mentions are counted", async () => {
  await open(ben, "music");
  await open(ben, "general");
  await node.say(1, "something in random");
  const row = ben.locator(".channel.unread", { hasText: "random" });
  await row.waitFor();
  await open(ben, "random");
  await message(ben, "something in random").waitFor();
  await ben.locator(".divider.new").waitFor();
  await until("the mark to go", async () => (await row.count()) === 0);
  const user = await ben.evaluate(() => fetch("/api/v10/users/@me", { headers: { authorization: localStorage.getItem("guildhall.chat.token") } }).then((r) => r.json()));
  await open(ben, "music");
  await node.say(1, `<@${user.id}> are you there?`);
  await ben.locator(".channel", { hasText: "random" }).locator(".badge", { hasText: "1" }).waitFor();
  const { id: second } = await node.say(1, `<@${user.id}> no matter`);
  await ben.locator(".channel", { hasText: "random" }).locator(".badge", { hasText: "2" }).waitFor();
  await node.rest("DELETE", `/channels/${node.demo.channel_ids[1]}/messages/${second}`);
  await ben.locator(".channel", { hasText: "random" }).locator(".badge", { hasText: "1" }).waitFor();
  await open(ben, "random");
  await ben.locator(".message.for-me", { hasText: "are you there?" }).waitFor();
  await open(ben, "general");
});

test("two pages of one account agree, and a third one begins where they are", async () => {
  const token = await ben.evaluate(() => localStorage.getItem("guildhall.chat.token"));
  const another = async () => {
    const page = await newPage();
    await page.goto(`${node.origin}/chat/`);
    await page.getByLabel(/user token/i).fill(token);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.locator("#composer").waitFor();
    await open(page, "general");
    return page;
  };
  const second = await another();
  const { id } = await second.evaluate(() => fetch("/api/v10/users/@me", { headers: { authorization: localStorage.getItem("guildhall.chat.token") } }).then((r) => r.json()));
  const badge = (page) => page.locator(".channel", { hasText: "random" }).locator(".badge");
  await node.say(1, `<@${id}> one`);
  await node.say(1, "@everyone two, by a bot");
  await node.say(1, `<@${id}> three`);
  for (const page of [ben, second]) await badge(page).waitFor();
  const third = await another();
  await badge(third).waitFor();
  let counts;
  await until("the pages to count as the node does", async () => {
    counts = await Promise.all([ben, second, third].map((page) => badge(page).innerText()));
    return new Set(counts).size === 1 && counts[0] === "3";
  }).catch((error) => { throw new Error(`${error.message}: ${counts}`); });
  await open(ben, "random");
  for (const page of [second, third]) await until("the badge to go", async () => (await badge(page).count()) === 0);
  // All of a community at once.
  await open(ben, "general");
  await node.say(1, `<@${id}> four`);
  await node.say(2, "elsewhere");
  await badge(second).waitFor();
  await second.getByRole("button", { name: "Actions on this community" }).click();
  await second.getByRole("menuitem", { name: "Mark everything as read" }).click();
  for (const page of [ben, third]) await until("all marks to go", async () => (await page.locator(".channel.unread, .channel .badge").count()) === 0);
  const fourth = await another();
  await until("a page without marks", async () => (await fourth.locator(".channel.unread, .channel .badge").count()) === 0);
  assert.deepEqual([second.complaints, third.complaints, fourth.complaints], [[], [], []]);
  for (const page of [second, third, fourth]) await page.context().close();
});

test("a typing member shows below the messages", async () => {
  await ana.locator("#composer").pressSequentially("slowly");
  await ben.locator(".typing", { hasText: "is typing" }).waitFor();
  await ana.locator("#composer").fill("");
});

test("drafts stay in their channel", async () => {
  await ana.locator("#composer").fill("not finished");
  await open(ana, "music");
  assert.equal(await ana.locator("#composer").inputValue(), "");
  await open(ana, "general");
  assert.equal(await ana.locator("#composer").inputValue(), "not finished");
  await ana.locator("#composer").fill("");
});

test("hostile markup stays text", async () => {
  const hostile = [
    "<img src=x onerror=window.hit=1>", "<script>window.hit=1</script>", "[a](javascript:window.hit=1)", "<svg/onload=window.hit=1>",
    "**<b onmouseover=window.hit=1>bold</b>**", "`<iframe srcdoc='<script>parent.hit=1</script>'>`", "||<img src=x onerror=window.hit=1>||", "javascript:window.hit=1",
    "> <style>*{display:none}</style>", "[x](https://example.net/\" onclick=\"window.hit=1)",
  ];
  for (const text of hostile) await node.say(0, `${text} end`);
  await message(ana, `${hostile.at(-1).slice(0, 3)}`).waitFor();
  await until("all of them", async () => (await ana.locator(".content", { hasText: "end" }).count()) >= hostile.length);
  const found = await ana.evaluate(() => ({
    hit: window.hit, inner: document.querySelectorAll(".content img, .content script, .content svg, .content iframe, .content style, .content b").length,
    links: [...document.querySelectorAll(".content a")].map((link) => link.protocol), handlers: [...document.querySelectorAll(".content *")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length,
  }));
  assert.deepEqual({ ...found, links: found.links.filter((protocol) => !protocol.startsWith("http")) }, { hit: undefined, inner: 0, links: [], handlers: 0 });
  await ana.locator(".content", { hasText: "<script>window.hit=1</script>" }).waitFor();
});

test("history loads upwards, and one jumps back to the newest", async () => {
  for (let n = 0; n < 130; n++) await node.rest("POST", `/channels/${node.demo.channel_ids[5]}/messages`, { content: `line ${n}` });
  await open(ana, "cooking").catch(() => {});
  const name = await ana.evaluate(async (id) => (await fetch(`/api/v10/channels/${id}`, { headers: { authorization: localStorage.getItem("guildhall.chat.token") } }).then((r) => r.json())).name, node.demo.channel_ids[5]);
  await open(ana, name);
  await message(ana, "line 129").waitFor();
  const box = ana.locator(".messages");
  await until("the oldest of them", async () => {
    await box.evaluate((element) => { element.scrollTop = 0; });
    return (await ana.locator(".content", { hasText: /^line 0$/ }).count()) === 1;
  });
  await ana.getByRole("button", { name: /newest/ }).click();
  await message(ana, "line 129").waitFor();
  await until("the end", () => box.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 60));
  await open(ana, "general");
});

test("a pinned message of long ago is shown with those around it, and one jumps back to the newest", async () => {
  const channel = node.demo.channel_ids[6], { name } = await node.rest("GET", `/channels/${channel}`);
  const old = await node.say(6, "the old one");
  await node.rest("PUT", `/channels/${channel}/messages/pins/${old.id}`);
  for (let n = 0; n < 130; n++) await node.say(6, `since then ${n}`);
  await open(ana, name);
  await message(ana, "since then 129").waitFor();
  assert.equal(await messages(ana).filter({ hasText: "the old one" }).count(), 0);
  await ana.getByRole("button", { name: "Pinned messages" }).click();
  await ana.getByRole("dialog", { name: "Pinned messages" }).getByRole("button").first().click();
  const row = message(ana, "the old one");
  await until("focus on the message", () => row.evaluate((element) => document.activeElement === element));
  assert.ok(await row.evaluate((element) => { const { top, bottom } = element.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }), "the message is in view");
  await message(ana, "since then 5").waitFor();
  assert.equal(await messages(ana).filter({ hasText: "since then 129" }).count(), 0);
  await ana.getByRole("button", { name: /newest/ }).click();
  await message(ana, "since then 129").waitFor();
  await open(ana, "general");
});

test("a message that comes while the history is on its way is shown", async () => {
  const page = await visit(node);
  const name = (await node.rest("GET", `/channels/${node.demo.channel_ids[2]}`)).name;
  await page.route(/\/messages\?limit=/, async (route) => {
    const response = await route.fetch();
    await node.say(2, "after the page was read");
    // The gateway is faster than this answer.
    await new Promise((resume) => setTimeout(resume, 1000));
    await route.fulfill({ response });
  }, { times: 1 });
  await open(page, name);
  await message(page, "after the page was read").waitFor();
  assert.equal(await page.locator(".content", { hasText: "after the page was read" }).count(), 1);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a direct message to the other", async () => {
  await say(ben, "write me a direct message");
  await message(ana, "write me a direct message").locator(".author").click();
  await ana.getByRole("button", { name: "Message", exact: true }).click();
  await ana.locator(".rail-item.home.current").waitFor();
  await say(ana, "just between us");
  await ben.locator(".rail-item.home .badge").waitFor();
  await ben.locator(".rail-item.home").click();
  await message(ben, "just between us").waitFor();
  for (const page of [ana, ben]) { await page.locator(".rail-item").nth(1).click(); await page.locator("#composer").waitFor(); }
});

test("a file arrives", async () => {
  await ana.locator("input[type=file]").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("eggs, flour") });
  await say(ana, "the list");
  const file = message(ben, "the list").locator(".file", { hasText: "notes.txt" });
  await file.waitFor();
  const got = await ben.request.get(await file.getAttribute("href"));
  assert.equal(await got.text(), "eggs, flour");
});

test("files that do not fit into a message are named", async () => {
  const files = Array.from({ length: 12 }, (_, n) => ({ name: `f${n + 1}.txt`, mimeType: "text/plain", buffer: Buffer.from("x") }));
  await ana.locator("input[type=file]").setInputFiles(files);
  await ana.getByText("A message has 10 files at most. Left out: f11.txt, f12.txt.").waitFor();
  assert.equal(await ana.locator(".chosen-files li").count(), 10);
  for (let n = 0; n < 10; n++) await ana.locator(".chosen-files button").first().click();
});

test("a quotation of all that follows", async () => {
  await node.say(0, "before\n>>> quoted\nstill quoted");
  const quotation = message(ana, "still quoted").locator("blockquote");
  await quotation.waitFor();
  assert.equal((await quotation.innerText()).trim(), "quoted\nstill quoted");
});

test("the page follows its address", async () => {
  const [here, there] = node.demo.channel_ids;
  await ana.evaluate((id) => { location.hash = `#/${id}`; }, there);
  const other = (await node.rest("GET", `/channels/${there}`)).name, first = (await node.rest("GET", `/channels/${here}`)).name;
  await ana.locator(".channel-head h2", { hasText: other }).waitFor();
  await ana.evaluate(() => { location.hash = "#/999"; });
  await ana.getByText("There is no channel at this address").waitFor();
  await until("the address names the channel again", async () => (await ana.evaluate(() => location.hash)) === `#/${there}`);
  await ana.evaluate((id) => { location.hash = `#/${id}`; }, here);
  await ana.locator(".channel-head h2", { hasText: first }).waitFor();
});

test("the console is silent", () => {
  assert.deepEqual([ana.complaints, ben.complaints], [[], []]);
});
