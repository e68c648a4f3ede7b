// Beginnings: a guild without channels, a person without a guild, invites, and a sign-on.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, newPage, Node, overflow, say, until, violations, visit } from "./support.js";

let node, serial = 900;

before(async () => { node = await Node.start(); });
after(async () => {
  await closeBrowser();
  await node?.stop();
});

async function backend(method, path, body) {
  const response = await fetch(`${node.origin}/v1${path}`, { method, headers: { authorization: `Bearer ${node.demo.admin_key}`, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** A new account of the backend: its id, and a page that is logged in. */
async function person(name, options) {
  const id = String(++serial);
  await backend("PUT", `/users/${id}`, { username: name });
  const { token } = await backend("POST", `/users/${id}/tokens`, {});
  return { id, token, enter: () => logIn(token, options) };
}

async function logIn(token, options = {}, path = "/chat/") {
  const page = await newPage(options);
  await page.goto(`${node.origin}${path}`);
  await page.getByLabel(/user token/i).fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".app").waitFor();
  return page;
}

test("the owner of a guild without channels creates the first one, and others see it at once", async () => {
  const [owner, member] = [await person("olga"), await person("mika", { viewport: { width: 390, height: 844 }, colorScheme: "dark" })];
  await backend("PUT", "/guilds/5000", { name: "The New Guild", owner_id: owner.id });
  await backend("PUT", `/guilds/5000/members/${member.id}`, {});
  const [first, second] = [await owner.enter(), await member.enter()];
  await second.getByRole("heading", { name: "There is no channel here that you can read" }).waitFor();
  assert.equal(await second.getByLabel("Name of the channel").count(), 0);
  assert.deepEqual([await violations(second), await overflow(second)], [[], 0]);
  await first.getByRole("heading", { name: "The New Guild has no channel yet" }).waitFor();
  assert.deepEqual([await violations(first), await overflow(first)], [[], 0]);
  await first.getByLabel("Name of the channel").fill("Lamp Talk");
  await first.getByRole("button", { name: "Create the first channel" }).click();
  await first.locator(".channel-head h2", { hasText: "lamp-talk" }).waitFor();
  await say(first, "the first words");
  await message(second, "the first words").waitFor();
  // One more, from the menu of the guild; a member has no such entry.
  await first.getByRole("button", { name: "Actions on this community" }).click();
  await first.getByRole("menuitem", { name: "Create a channel" }).click();
  await first.getByLabel("Name of the channel").fill("oil");
  await first.keyboard.press("Enter");
  await first.locator(".channel-head h2", { hasText: "oil" }).waitFor();
  assert.deepEqual([first.complaints, second.complaints], [[], []]);
});

test("a person without a guild creates one", async () => {
  const page = await (await person("nora")).enter();
  await page.getByRole("heading", { name: "You are in no community yet" }).waitFor();
  assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
  assert.match(await page.locator(".begin").innerText(), /ask the operator.*PUT \/v1\/guilds/is);
  await page.getByLabel("Name of a new community").fill("Nora’s place");
  await page.getByRole("button", { name: "Create a community" }).click();
  await page.locator(".channel-head h2", { hasText: "general" }).waitFor();
  await say(page, "at home");
  assert.deepEqual(page.complaints, []);
});

test("an invite: made in the menu, opened as a link, joined", async () => {
  const host = await visit(node);
  const guest = await person("gast");
  await host.getByRole("button", { name: "Add a community" }).click();
  await host.getByLabel("Name of a new community").fill("Supper club");
  await host.getByRole("button", { name: "Create a community" }).click();
  await host.locator(".guild-name", { hasText: "Supper club" }).waitFor();
  await host.getByRole("button", { name: "Actions on this community" }).click();
  await host.getByRole("menuitem", { name: "Invite people" }).click();
  const field = host.getByLabel(/Who opens this link/);
  const link = await until("the link", () => field.inputValue());
  assert.match(link, /\/chat\/#\/invite\/[\w-]+$/);
  const page = await logIn(guest.token, {}, new URL(link).pathname + new URL(link).hash);
  await page.getByRole("heading", { name: "You are invited to Supper club" }).waitFor();
  assert.deepEqual(await violations(page), []);
  // A log-in elsewhere leads back without the invite in the address.
  await page.goto("about:blank");
  await page.goto(`${node.origin}/chat/`);
  await page.getByRole("heading", { name: "You are invited to Supper club" }).waitFor();
  await page.getByRole("button", { name: "Join Supper club" }).click();
  await page.locator(".guild-name", { hasText: "Supper club" }).waitFor();
  await say(page, "thank you for the invite");
  await message(host, "thank you for the invite").waitFor();
  // An unknown code gets an error, and the page stays usable.
  await page.evaluate(() => { location.hash = "#/invite/nosuchcode"; });
  await page.getByRole("heading", { name: "This invite does not work" }).waitFor();
  await page.getByRole("button", { name: "Go on without it" }).click();
  await page.locator("#composer").waitFor();
});

test("where only the backend creates guilds, the page shows that, before and after an attempt", async (t) => {
  const page = await newPage();
  const { token } = await person("paul");
  await page.route("**/api/v10/guilds", (route) => route.fulfill({ status: 403, json: { message: "Only the backend creates guilds on this node (users.create_guilds).", code: 50001 } }));
  await page.goto(`${node.origin}/chat/`);
  await page.getByLabel(/user token/i).fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByLabel("Name of a new community").fill("No such luck");
  await page.getByRole("button", { name: "Create a community" }).click();
  await page.getByText("On this node only the operator creates communities").waitFor();
  assert.equal(await page.getByLabel("Name of a new community").count(), 0);

  const closed = await Node.start({ settings: ["users.create_guilds=backend"] });
  t.after(() => closed.stop());
  const visitor = await visit(closed);
  await visitor.getByRole("button", { name: "Add a community" }).click();
  await visitor.getByText("On this node only the operator creates communities").waitFor();
  assert.equal(await visitor.getByLabel("Name of a new community").count(), 0);
  assert.deepEqual(visitor.complaints, []);
});

test("a sign-on gives its token in the fragment, for a log-in that began here", async (t) => {
  const there = await Node.start({ settings: ["server.chat_sign_on_url=https://login.example.net/begin?app=chat"] });
  t.after(() => there.stop());
  const page = await newPage();
  const token = there.demo.user_token;
  await page.goto(`${there.origin}/chat/`);
  const link = new URL(await page.getByRole("link", { name: "Log in at login.example.net" }).getAttribute("href"));
  assert.deepEqual([link.origin, link.searchParams.get("app"), link.searchParams.get("return_to")], ["https://login.example.net", "chat", `${there.origin}/chat/`]);
  assert.match(link.searchParams.get("state"), /^[0-9a-f]{32}$/);
  assert.deepEqual(await violations(page), []);
  const comeBack = async (fragment) => {
    await page.goto("about:blank");
    await page.goto(`${there.origin}/chat/#${fragment}`);
  };
  const state = async () => new URL(await page.getByRole("link", { name: /Log in at/ }).getAttribute("href")).searchParams.get("state");
  // The link of another account does not log this browser in.
  await comeBack(`token=${encodeURIComponent(token)}&state=${"0".repeat(32)}`);
  await page.getByRole("alert").getByText("was not begun here").waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem("guildhall.chat.token")), null);
  await comeBack(`error=access_denied&state=${await state()}`);
  await page.getByRole("alert").getByText("The sign-on refused: access_denied").waitFor();
  await comeBack(`token=${encodeURIComponent(token)}&state=${await state()}`);
  await page.locator("#composer").waitFor();
  assert.ok(!page.url().includes("token="), page.url());
  assert.deepEqual(page.complaints, []);
});
