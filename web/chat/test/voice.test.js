// Voice rooms: the list of people in each, in the side bar of a visitor.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sdk } from "./sdk.js";
import { closeBrowser, Node, until, visit } from "./support.js";

const { Client } = await sdk("node.ts");
const SHOWN_MAX = 12;
let node, page, rooms;
const clients = [];

before(async () => {
  node = await Node.start();
  const channels = await node.rest("GET", `/guilds/${node.demo.guild_id}/channels`);
  rooms = channels.filter((channel) => channel.type === 2);
  page = await visit(node);
});
after(async () => {
  for (const client of clients) client.close();
  await closeBrowser();
  await node?.stop();
});

/** A visitor without a browser, ready to join rooms. */
async function join() {
  const { token } = await (await fetch(`${node.origin}/chat/visitors`, { method: "POST" })).json();
  const client = new Client({ url: node.origin.replace("http", "ws"), token });
  clients.push(client);
  client.connect();
  assert.deepEqual(await client.ready(), { ok: true, value: undefined });
  const { self } = client.cache;
  return { id: self.id, name: self.global_name ?? self.username, client, enter: (room, options) => client.setVoice(node.demo.guild_id, room?.id ?? null, options) };
}

const room = (of, at = page) => at.locator(".voice-room", { has: at.locator(".room .name", { hasText: of.name }) });
const person = (of, who, at = page) => room(of, at).locator(".voice-people li", { has: at.locator(".name", { hasText: who.name }) });
/** The number beside a room; 0 if there is none. */
const count = async (of) => Number((await room(of).locator(".count").allInnerTexts())[0] ?? 0);

test("a member enters, is muted, changes rooms and leaves", async () => {
  const [first, second] = rooms;
  const start = [await count(first), await count(second)];
  const guest = await join();
  guest.enter(first);
  await person(first, guest).waitFor();
  assert.deepEqual([await count(first), await count(second)], [start[0] + 1, start[1]]);
  guest.enter(first, { selfMute: true });
  await person(first, guest).locator("text=muted").waitFor();
  guest.enter(second);
  await person(second, guest).waitFor();
  assert.equal(await person(first, guest).count(), 0, "nobody is in two rooms");
  assert.deepEqual([await count(first), await count(second)], [start[0], start[1] + 1]);
  await person(second, guest).getByRole("button").click();
  await page.getByRole("dialog").locator("h3", { hasText: guest.name }).waitFor();
  await page.keyboard.press("Escape");
  guest.enter(null);
  await until("the guest to leave", async () => (await person(second, guest).count()) === 0);
  assert.deepEqual([await count(first), await count(second)], start);
});

test("a list that was there before the log-in is complete, with names", async () => {
  const guest = await join();
  guest.enter(rooms[0]);
  await person(rooms[0], guest).waitFor();
  const late = await visit(node);
  await person(rooms[0], guest, late).waitFor();
  await until("every name", async () => (await late.locator(".voice-people .name").allInnerTexts()).every((name) => name !== "…"));
  assert.deepEqual(await room(rooms[0], late).locator(".voice-people .name").allInnerTexts(), await room(rooms[0]).locator(".voice-people .name").allInnerTexts());
  assert.deepEqual(late.complaints, []);
  await late.context().close();
  guest.client.close();
  await until("the guest to leave with the connection", async () => (await person(rooms[0], guest).count()) === 0);
});

test("a full room shows the first people and the number of the others", async () => {
  const before = await count(rooms[1]);
  const crowd = await Promise.all(Array.from({ length: SHOWN_MAX + 2 - before }, join));
  for (const guest of crowd) guest.enter(rooms[1]);
  await until("all of them", async () => (await count(rooms[1])) === SHOWN_MAX + 2);
  assert.equal(await room(rooms[1]).locator(".voice-people button").count(), SHOWN_MAX);
  assert.equal(await room(rooms[1]).locator(".more").innerText(), "2 more");
  for (const guest of crowd) guest.enter(null);
  await until("all of them to leave", async () => (await count(rooms[1])) === before);
  assert.equal(await room(rooms[1]).locator(".more").count(), 0);
});

test("the console is silent", () => assert.deepEqual(page.complaints, []));
