// What bots send: threads that begin at a message, embeds, components of both versions, stickers. Nothing of it becomes markup.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { deflateSync } from "node:zlib";
import { closeBrowser, message, Node, open, overflow, say, until, violations, visit } from "./support.js";

const COMPONENTS_V2 = 1 << 15;
let node, page;

before(async () => {
  node = await Node.start();
  page = await visit(node, { viewport: { width: 1440, height: 1000 } });
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const crcTable = Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1; return n >>> 0; });
function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]), out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE((body.reduce((crc, byte) => crcTable[(crc ^ byte) & 255] ^ (crc >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0, body.length + 4);
  return out;
}
/** A grey PNG. */
function png(width, height) {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", header), chunk("IDAT", deflateSync(Buffer.alloc((width + 1) * height, 120))), chunk("IEND", Buffer.alloc(0))]);
}

/** A message of the bot with files. */
async function post(channel, body, files = {}) {
  const form = new FormData();
  form.append("payload_json", JSON.stringify(body));
  Object.entries(files).forEach(([name, bytes], at) => form.append(`files[${at}]`, new Blob([bytes], { type: name.endsWith(".png") ? "image/png" : "text/plain" }), name));
  const response = await fetch(`${node.demo.api_base}/v10/channels/${node.demo.channel_ids[channel]}/messages`, { method: "POST", headers: { authorization: `Bot ${node.demo.bot_token}` }, body: form });
  const answer = await response.json();
  assert.ok(response.ok, JSON.stringify(answer));
  return answer;
}
const row = (id) => page.locator(`.message[data-id="${id}"]`);

test("a thread's first message is the message that it began at, now and after a reload", async () => {
  const opener = await node.say(0, "which **lamp** shall it be?", { embeds: [{ title: "Brass or copper" }] });
  const thread = await node.rest("POST", `/channels/${node.demo.channel_ids[0]}/messages/${opener.id}/threads`, { name: "Lamp choice" });
  await page.locator(".channel.nested", { hasText: "Lamp choice" }).click();
  await page.locator(".channel-head h2", { hasText: "Lamp choice" }).waitFor();
  for (const round of ["at once", "after a reload"]) {
    const first = page.locator(".messages .message").first();
    await first.locator(".content strong", { hasText: "lamp" }).waitFor();
    assert.match(await first.innerText(), /which lamp shall it be\?/, round);
    assert.equal(await first.locator(".embed-title").innerText(), "Brass or copper", round);
    assert.match(await first.locator(".author").innerText(), /\S/, round);
    if (round === "at once") {
      await page.reload();
      await page.locator(".channel-head h2", { hasText: "Lamp choice" }).waitFor();
    }
  }
  const first = page.locator(".messages .message").first();
  await node.rest("PATCH", `/channels/${node.demo.channel_ids[0]}/messages/${opener.id}`, { content: "which lantern?" });
  await first.locator(".content", { hasText: "which lantern?" }).waitFor();
  await first.hover();
  await first.getByRole("button", { name: "React" }).click();
  await page.getByRole("button", { name: "React with 🎉" }).click();
  await until("the reaction on the message itself", async () => (await node.rest("GET", `/channels/${node.demo.channel_ids[0]}/messages/${opener.id}`)).reactions?.[0]?.count === 1);
  await first.locator(".reactions .mine").waitFor();
  await first.hover();
  await first.getByRole("button", { name: "More" }).click();
  assert.equal(await page.getByRole("menuitem", { name: /Delete|Pin/ }).count(), 0);
  await page.getByRole("menuitem", { name: "Go to the message" }).click();
  await until("focus on the message", () => page.evaluate((id) => document.activeElement?.dataset.id === id, opener.id));
  await node.say(0, "stays");
  await node.rest("DELETE", `/channels/${node.demo.channel_ids[0]}/messages/${opener.id}`);
  await until("the message to go", async () => (await row(opener.id).count()) === 0);
  await page.evaluate((id) => { location.hash = `#/${id}`; location.reload(); }, thread.id);
  await page.locator(".channel-head h2", { hasText: "Lamp choice" }).waitFor();
  await page.locator(".messages .system", { hasText: "was deleted" }).waitFor();
  await open(page, "general");
});

test("an embed has all of its parts", async () => {
  const { id } = await post(0, {
    embeds: [{
      title: "Build 512", url: "https://example.net/512", description: "All **green**", color: 0x2ecc71, timestamp: "2026-03-04T05:06:07.000Z",
      author: { name: "The builder", url: "https://example.net/builder" }, footer: { text: "took 4 min" },
      fields: [{ name: "Branch", value: "`main`", inline: true }, { name: "Tests", value: "812", inline: true }, { name: "Notes", value: "one\ntwo" }],
      image: { url: "attachment://chart.png" }, thumbnail: { url: "https://cdn.example.net/face.png" },
    }],
  }, { "chart.png": png(320, 120) });
  const embed = row(id).locator(".embed");
  await embed.waitFor();
  assert.equal(await embed.evaluate((element) => getComputedStyle(element).borderLeftColor), "rgb(46, 204, 113)");
  const title = embed.locator(".embed-title a");
  assert.deepEqual([await title.innerText(), await title.getAttribute("href"), await title.getAttribute("rel")], ["Build 512", "https://example.net/512", "noopener noreferrer nofollow"]);
  assert.equal(await embed.locator(".embed-author a").getAttribute("href"), "https://example.net/builder");
  assert.equal(await embed.locator("strong").innerText(), "green");
  assert.deepEqual(await embed.locator(".embed-fields dt").allInnerTexts(), ["Branch", "Tests", "Notes"]);
  const boxes = await embed.locator(".embed-fields > div").evaluateAll((all) => all.map((one) => { const { left, top } = one.getBoundingClientRect(); return { left, top }; }));
  assert.ok(boxes[0].top === boxes[1].top && boxes[0].left < boxes[1].left && boxes[2].top > boxes[1].top, JSON.stringify(boxes));
  assert.match(await embed.locator(".embed-footer").innerText(), /took 4 min · .*March 4/);
  const image = embed.locator("img[alt='Build 512']");
  await until("the picture", () => image.evaluate((element) => element.complete && element.naturalWidth === 320));
  // Of another host nothing is loaded.
  assert.match(await embed.locator("a.elsewhere").innerText(), /cdn\.example\.net/);
});

test("a message of buttons and menus", async () => {
  const { id } = await node.rest("POST", `/channels/${node.demo.channel_ids[0]}/messages`, {
    components: [
      { type: 1, components: [{ type: 2, style: 1, label: "Accept", custom_id: "a" }, { type: 2, style: 4, label: "Refuse", custom_id: "r", emoji: { name: "🚫" } }, { type: 2, style: 5, label: "Handbook", url: "https://example.net/book" }] },
      { type: 1, components: [{ type: 3, custom_id: "s", placeholder: "Pick a colour", options: [{ label: "Red", value: "r" }, { label: "Blue", value: "b" }] }] },
      { type: 1, components: [{ type: 5, custom_id: "u" }] },
    ],
  });
  const there = row(id);
  await there.getByRole("button", { name: "Accept" }).waitFor();
  assert.ok(await there.getByRole("button", { name: "Accept" }).isEnabled());
  assert.match(await there.getByRole("button", { name: "Refuse" }).innerText(), /🚫/);
  assert.equal(await there.getByRole("link", { name: "Handbook" }).getAttribute("href"), "https://example.net/book");
  await there.getByRole("button", { name: "Pick a colour" }).waitFor();
  await there.getByRole("button", { name: "Choose a person" }).waitFor();
});

test("components of the second version are text, sections, pictures, files and lines", async () => {
  const { id } = await post(0, {
    flags: COMPONENTS_V2,
    components: [
      { type: 17, accent_color: 0xf0b03f, components: [
        { type: 10, content: "# Weekly report\nAll **lamps** lit" },
        { type: 14, divider: true, spacing: 2 },
        { type: 9, components: [{ type: 10, content: "Oil: 40 l" }], accessory: { type: 11, media: { url: "attachment://oil.png" }, description: "An oil can" } },
        { type: 12, items: [{ media: { url: "attachment://oil.png" }, description: "first" }, { media: { url: "https://cdn.example.net/b.png" } }] },
        { type: 13, file: { url: "attachment://list.txt" } },
        { type: 1, components: [{ type: 2, style: 2, label: "Order more", custom_id: "o" }] },
      ] },
    ],
  }, { "oil.png": png(200, 100), "list.txt": "wicks" });
  const there = row(id);
  const box = there.locator(".container");
  await box.locator("strong", { hasText: "lamps" }).waitFor();
  assert.equal(await box.evaluate((element) => getComputedStyle(element).borderLeftColor), "rgb(240, 176, 63)");
  assert.match(await box.innerText(), /Weekly report/);
  assert.equal(await box.locator("hr").count(), 1);
  await until("both pictures", () => box.locator("img").evaluateAll((all) => all.length === 2 && all.every((each) => each.complete && each.naturalWidth === 200)));
  assert.equal(await box.locator("img[alt='An oil can']").count(), 1);
  assert.match(await box.locator(".gallery .elsewhere").innerText(), /cdn\.example\.net/);
  assert.equal(await box.locator(".file .name").innerText(), "list.txt");
  await box.getByRole("button", { name: "Order more" }).waitFor();
  assert.equal(await there.locator(".files").count(), 0, "each file is shown once");
});

test("of any form: nothing breaks, nothing runs, nothing leads elsewhere than to the web", async () => {
  // The node takes components of upstream's forms only.
  const components = [
    { type: 10, content: "<img src=x onerror=window.hit=1> [a](javascript:window.hit=1)" },
    { type: 17, components: [{ type: 10, content: "<svg/onload=window.hit=1>" }] },
  ];
  const sent = [(await node.rest("POST", `/channels/${node.demo.channel_ids[0]}/messages`, { components, flags: COMPONENTS_V2 })).id];
  const { id } = await node.say(0, "", { embeds: [{ title: "<script>window.hit=1</script>", description: "<svg/onload=window.hit=1>", fields: [{ name: "<b>n</b>", value: "<i>v</i>" }], author: { name: "<u>a</u>" }, footer: { text: "<s>f</s>" } }] });
  await row(id).locator(".embed").waitFor();
  await row(sent[0]).locator(".components").waitFor();
  const found = await page.evaluate((ids) => ids.map((of) => {
    const element = document.querySelector(`[data-id="${of}"] .body`);
    return {
      bad: element.querySelectorAll(".components img, .embed img, .embed b, .embed i, .embed u, .embed s, script, iframe, .embed svg:not([viewBox='0 0 16 16'])").length,
      links: [...element.querySelectorAll("a")].filter((link) => !/^https?:$/.test(link.protocol)).length, handlers: [...element.querySelectorAll("*")].filter((each) => [...each.attributes].some((a) => a.name.startsWith("on"))).length,
    };
  }), [...sent, id]);
  assert.deepEqual(found, found.map(() => ({ bad: 0, links: 0, handlers: 0 })));
  assert.equal(await page.evaluate(() => window.hit), undefined);
  await say(page, "the page still works");
});

test("replies and pins of a message without text name its contents", async () => {
  const only = await node.say(0, "", { embeds: [{ title: "Just a title" }] });
  await node.say(0, "an answer to the embed", { message_reference: { message_id: only.id } });
  assert.equal(await message(page, "an answer to the embed").locator(".quoted span").innerText(), "Just a title");
});

for (const [colorScheme, width] of [["light", 1440], ["dark", 390]]) {
  test(`axe finds nothing, and nothing is wider than the screen: ${colorScheme}, ${width} px`, async () => {
    const other = await visit(node, { colorScheme, viewport: { width, height: 900 } });
    await other.locator(".container").first().waitFor();
    assert.deepEqual([await violations(other), await overflow(other)], [[], 0]);
    const wide = await other.evaluate(() => [...document.querySelectorAll(".message")].filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText.slice(0, 60)));
    assert.deepEqual(wide, []);
    await other.context().close();
  });
}

test("the console is silent", () => assert.deepEqual(page.complaints, []));
