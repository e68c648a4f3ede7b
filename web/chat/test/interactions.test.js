// Interactions: a bot with commands, buttons, menus and a modal, used by a visitor; nobody else sees what is for the visitor alone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sdk } from "./sdk.js";
import { closeBrowser, message, messages, Node, open, overflow, say, until, violations, visit } from "./support.js";

const { Client } = await sdk("node.ts");
const EPHEMERAL = 64, COMPONENTS_V2 = 1 << 15;
const MESSAGE = 4, DEFERRED = 5, UPDATE = 7, CHOICES = 8, MODAL = 9;
const COMMANDS = [
  { name: "ping", description: "Answers at once" },
  { name: "say", description: "Repeats a text", options: [
    { type: 3, name: "text", description: "The words", required: true, max_length: 40 },
    { type: 4, name: "times", description: "How often", min_value: 1, max_value: 3 },
    { type: 5, name: "loudly", description: "In capitals" },
    { type: 3, name: "tone", description: "How it sounds", choices: [{ name: "Friendly", value: "f" }, { name: "Formal", value: "o" }] },
    { type: 6, name: "to", description: "Who is meant" },
    { type: 7, name: "where", description: "A channel of text", channel_types: [0] },
    { type: 8, name: "role", description: "Whose turn it is" },
  ] },
  { name: "find", description: "Finds a book", options: [{ type: 3, name: "title", description: "Begin to type", required: true, autocomplete: true }] },
  { name: "lamp", description: "Lamps", options: [{ type: 1, name: "list", description: "All lamps" }, { type: 2, name: "oil", description: "Oil", options: [{ type: 1, name: "order", description: "Orders oil", options: [{ type: 10, name: "litres", description: "How much", required: true }] }] }] },
  { name: "later", description: "Thinks first" },
  { name: "secret", description: "For you alone" },
  { name: "mute", description: "Never answers" },
  { name: "panel", description: "Buttons and menus" },
  { name: "form", description: "Shows a form" },
  { name: "Count words", type: 3 },
  { name: "Wave at", type: 2 },
];
const TITLES = ["The Lighthouse", "The Lamp", "Oil and Wick"];
const PANEL = [
  { type: 1, components: [{ type: 2, style: 1, label: "Accept", custom_id: "accept" }, { type: 2, style: 4, label: "Ignore me", custom_id: "nothing" }, { type: 2, style: 2, label: "Off", custom_id: "off", disabled: true }, { type: 2, style: 5, label: "Handbook", url: "https://example.net/book" }] },
  { type: 1, components: [{ type: 3, custom_id: "colour", placeholder: "Pick a colour", options: [{ label: "Red", value: "r", description: "As a fire" }, { label: "Blue", value: "b" }] }] },
  { type: 1, components: [{ type: 3, custom_id: "days", placeholder: "Pick days", min_values: 1, max_values: 2, options: ["Monday", "Tuesday", "Sunday"].map((label) => ({ label, value: label.slice(0, 2) })) }] },
  { type: 1, components: [{ type: 5, custom_id: "person", placeholder: "Pick a person" }] },
  { type: 1, components: [{ type: 8, custom_id: "channel", channel_types: [0] }] },
];
const FORM = { custom_id: "report", title: "Report a broken lamp", components: [
  { type: 18, label: "What is broken", description: "In a few words", component: { type: 4, custom_id: "what", style: 1, min_length: 3 } },
  { type: 18, label: "Details", component: { type: 4, custom_id: "details", style: 2, required: false, value: "none yet" } },
  { type: 18, label: "How urgent", component: { type: 3, custom_id: "urgent", options: [{ label: "Today", value: "t" }, { label: "Some day", value: "s" }] } },
  { type: 18, label: "Who looks after it", component: { type: 5, custom_id: "who", required: false } },
] };

let node, bot, ana, ben;
/** What the bot was sent. */
const got = [];

/** The bot: answers as a program of a user would. */
async function answer(interaction) {
  got.push(interaction);
  const { id, token, application_id, data } = interaction;
  const call = async (method, path, body) => {
    const response = await fetch(`${node.demo.api_base}/v10${path}`, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  };
  const reply = (type, of) => call("POST", `/interactions/${id}/${token}/callback`, { type, data: of });
  const values = (options = []) => Object.fromEntries(options.map((option) => [option.name, option.value ?? values(option.options)]));
  const name = interaction.type === 3 ? `component ${data.custom_id}` : interaction.type === 5 ? "submitted" : data.name;
  switch (name) {
    case "ping": return reply(MESSAGE, { content: "pong" });
    case "say": return reply(MESSAGE, { content: `said ${JSON.stringify(values(data.options))}` });
    case "find": return interaction.type === 4 ? reply(CHOICES, { choices: TITLES.filter((title) => title.toLowerCase().includes(data.options[0].value.toLowerCase())).map((title) => ({ name: title, value: title.toUpperCase() })) }) : reply(MESSAGE, { content: `found ${data.options[0].value}` });
    case "lamp": return reply(MESSAGE, { content: `lamp ${JSON.stringify(values(data.options))}` });
    case "later": {
      await reply(DEFERRED);
      await until("somebody to see that it thinks", async () => (await ana.locator(".thinking").count()) > 0);
      return call("PATCH", `/webhooks/${application_id}/${token}/messages/@original`, { content: "thought about it" });
    }
    case "secret": return reply(MESSAGE, { content: "between us", flags: EPHEMERAL, components: [{ type: 1, components: [{ type: 2, style: 3, label: "I promise", custom_id: "promise" }] }] });
    case "panel": return reply(MESSAGE, { content: "choose", components: PANEL });
    case "form": return reply(MODAL, FORM);
    case "Wave at": return reply(MESSAGE, { content: `waves at ${data.resolved.users[data.target_id].username}` });
    case "Count words": return reply(MESSAGE, { content: `${data.resolved.messages[data.target_id].content.split(" ").length} words`, flags: EPHEMERAL });
    case "component accept": return reply(UPDATE, { content: "accepted", components: [] });
    case "component promise": return reply(UPDATE, { content: "promised", components: [] });
    case "component nothing": case "mute": return;
    case "submitted": return reply(MESSAGE, { content: `report ${JSON.stringify(data.components.map(({ component }) => component.value ?? component.values))}` });
    default: return reply(MESSAGE, { content: `${name}: ${data.values}`, flags: EPHEMERAL });
  }
}

before(async () => {
  node = await Node.start();
  const { id } = await node.rest("GET", "/users/@me");
  await node.rest("PUT", `/applications/${id}/commands`, COMMANDS);
  bot = new Client({ url: node.demo.gateway_url, token: `Bot ${node.demo.bot_token}`, intents: 1 });
  bot.on("INTERACTION_CREATE", (interaction) => { answer(interaction).catch((error) => console.error(error)); });
  bot.connect();
  assert.deepEqual(await bot.ready(), { ok: true, value: undefined });
  [ana, ben] = [await visit(node), await visit(node)];
});
after(async () => {
  bot?.close();
  await closeBrowser();
  await node?.stop();
});

const composer = () => ana.locator("#composer");
const hit = (text) => ana.locator("#suggestions [role=option]", { hasText: text });
const form = () => ana.locator(".command-form");
const lastData = () => got.at(-1).data;

/** Opens a command from the list. */
async function begin(name) {
  await composer().focus();
  await ana.keyboard.type(`/${name}`);
  await hit(`/${name}`).first().waitFor();
  await ana.keyboard.press("Enter");
  await form().waitFor();
}

test("/ lists the commands of the channel; one without options is sent by two presses of Enter", async () => {
  await composer().focus();
  await ana.keyboard.type("/");
  await hit("/ping").waitFor();
  assert.deepEqual((await ana.locator("#suggestions [role=option] .name").allInnerTexts()), ["/find", "/form", "/lamp list", "/lamp oil order", "/later", "/mute", "/panel", "/ping", "/say", "/secret"]);
  assert.deepEqual(await violations(ana), []);
  await ana.keyboard.type("pin");
  await until("one command", async () => (await ana.locator("#suggestions [role=option]").count()) === 1);
  await ana.keyboard.press("Enter");
  await until("focus on the button", () => ana.evaluate(() => document.activeElement?.textContent === "Send /ping"));
  await ana.keyboard.press("Enter");
  for (const page of [ana, ben]) {
    await message(page, "pong").locator(".used", { hasText: "used /ping" }).waitFor();
    assert.match(await message(page, "pong").locator(".head").innerText(), /bot/);
  }
  await until("focus in the message box", () => ana.evaluate(() => document.activeElement?.id === "composer"));
});

test("options of all types, with the keyboard alone", async () => {
  await begin("say");
  await until("focus in the first option", () => ana.evaluate(() => document.activeElement?.id === "option-text"));
  assert.deepEqual([await violations(ana), await overflow(ana)], [[], 0]);
  await ana.keyboard.press("Enter");
  await form().getByRole("alert").getByText("“text” is required.").waitFor();
  await ana.keyboard.type("hello there");
  await ana.keyboard.press("Tab");
  await ana.keyboard.type("9");
  await ana.keyboard.press("Enter");
  await form().getByText("“times”: whole number, 1 to 3.").waitFor();
  await ana.keyboard.press("Backspace");
  await ana.keyboard.type("2");
  await form().getByLabel("loudly").selectOption("Yes");
  await form().getByLabel("tone").selectOption("Formal");
  const user = await node.rest("GET", "/users/@me", undefined, node.demo.user_token);
  await form().getByRole("combobox", { name: "to", exact: true }).fill(user.username.slice(0, 4));
  await form().getByRole("option", { name: user.username }).first().waitFor();
  await form().getByRole("option", { name: user.username }).first().click();
  await form().getByRole("combobox", { name: "where" }).fill("rand");
  await form().getByRole("option", { name: "random" }).waitFor();
  await ana.keyboard.press("Tab");
  await form().getByRole("combobox", { name: "role" }).fill("moder");
  await form().getByRole("option", { name: "Moderator" }).waitFor();
  await ana.keyboard.press("Enter");
  await ana.keyboard.press("Enter");
  await message(ana, "said {").waitFor();
  const options = Object.fromEntries(lastData().options.map(({ name, value }) => [name, value]));
  const { role, ...others } = options;
  assert.deepEqual(others, { text: "hello there", times: 2, loudly: true, tone: "o", to: user.id, where: node.demo.channel_ids[1] });
  assert.match(lastData().resolved.roles[role].name, /Moderator/);
});

test("subcommands are commands of their own; a number is checked; Escape leads back", async () => {
  await begin("lamp oil order");
  await ana.keyboard.type("lots");
  await ana.keyboard.press("Enter");
  await form().getByText("“litres”: number.").waitFor();
  await form().getByLabel("litres").fill("1.5");
  await ana.keyboard.press("Enter");
  await message(ana, 'lamp {"oil":{"order":{"litres":1.5}}}').waitFor();
  await begin("lamp list");
  await ana.keyboard.press("Escape");
  await until("focus in the message box", () => ana.evaluate(() => document.activeElement?.id === "composer"));
  assert.equal(await form().count(), 0);
});

test("a command that is written out is one, with its first option; any other text is a message", async () => {
  await composer().fill("/say good evening");
  await ana.keyboard.press("Enter");
  await form().waitFor();
  assert.equal(await form().getByLabel("text").inputValue(), "good evening");
  await form().getByRole("button", { name: "Send /say" }).click();
  await message(ana, 'said {"text":"good evening"}').waitFor();
  await say(ana, "/nosuchcommand at all");
});

test("an option is completed by the application", async () => {
  await begin("find");
  await ana.keyboard.type("lamp");
  await form().getByRole("option", { name: "The Lamp" }).waitFor();
  await until("one proposal", async () => (await form().getByRole("option").count()) === 1);
  await ana.keyboard.press("Enter");
  await ana.keyboard.press("Enter");
  await message(ana, "found THE LAMP").waitFor();
});

test("a deferred answer thinks first", async () => {
  await begin("later");
  await ana.keyboard.press("Enter");
  await message(ana, "thought about it").waitFor();
  assert.equal(await ana.locator(".thinking").count(), 0);
});

test("an answer for one reader: marked, used, dismissed, and nobody else has it", async () => {
  await begin("secret");
  await ana.keyboard.press("Enter");
  const row = message(ana, "between us");
  await row.getByText("Only you can see this").waitFor();
  assert.deepEqual([await violations(ana), await overflow(ana)], [[], 0]);
  await row.getByRole("button", { name: "I promise" }).click();
  await message(ana, "promised").waitFor();
  await node.say(0, "after the secret");
  await message(ben, "after the secret").waitFor();
  assert.equal(await messages(ben).filter({ hasText: /between us|promised/ }).count(), 0);
  assert.equal(await message(ana, "promised").getByRole("button", { name: /Reply|React/ }).count(), 0);
  await message(ana, "promised").getByRole("button", { name: "Dismiss" }).click();
  await until("the message to go", async () => (await messages(ana).filter({ hasText: "promised" }).count()) === 0);
});

test("without an answer in three seconds the page says so", async () => {
  await begin("mute");
  await ana.keyboard.press("Enter");
  await ana.locator(".typing", { hasText: "/mute: waiting for the answer" }).waitFor();
  await ana.locator(".toast", { hasText: "did not answer within 3 seconds" }).waitFor();
  await ana.locator(".toast").getByRole("button", { name: "Close" }).click();
  assert.equal(await ana.locator(".typing", { hasText: "/mute" }).count(), 0);
});

test("buttons and menus of a message", async () => {
  await begin("panel");
  await ana.keyboard.press("Enter");
  const row = message(ana, "choose");
  const button = (name) => row.getByRole("button", { name });
  await button("Accept").waitFor();
  assert.ok(await button("Off").isDisabled());
  assert.equal(await row.getByRole("link", { name: "Handbook" }).getAttribute("href"), "https://example.net/book");
  assert.deepEqual([await violations(ana), await overflow(ana)], [[], 0]);

  await button("Pick a colour").click();
  const layer = ana.getByRole("dialog");
  assert.deepEqual(await violations(ana), []);
  await layer.getByRole("menuitemradio", { name: "Blue" }).click();
  await message(ana, "component colour: b").waitFor();
  await button("Pick a colour: Blue").waitFor();

  await button("Pick days").focus();
  await ana.keyboard.press("Enter");
  assert.ok(await layer.getByRole("button", { name: "Choose" }).isDisabled());
  for (const day of ["Monday", "Sunday"]) await layer.getByLabel(day).check();
  assert.ok(await layer.getByLabel("Tuesday").isDisabled(), "two at most");
  assert.deepEqual(await violations(ana), []);
  await layer.getByRole("button", { name: "Choose" }).click();
  await message(ana, "component days: Mo,Su").waitFor();

  const user = await node.rest("GET", "/users/@me", undefined, node.demo.user_token);
  await button("Pick a person").click();
  await layer.getByRole("combobox").fill(user.username);
  await layer.getByRole("option", { name: user.username }).first().waitFor();
  assert.deepEqual(await violations(ana), []);
  await until("the member alone", async () => (await layer.getByRole("option").count()) === 1);
  await ana.keyboard.press("Enter");
  await message(ana, `component person: ${user.id}`).waitFor();

  await button("Choose a channel").click();
  await layer.getByRole("option", { name: "random" }).click();
  await message(ana, `component channel: ${node.demo.channel_ids[1]}`).waitFor();

  await button("Ignore me").click();
  await row.getByRole("alert").getByText("did not answer within 3 seconds").waitFor();
  await button("Accept").click();
  for (const page of [ana, ben]) await message(page, "accepted").waitFor();
  await until("the buttons to go", async () => (await message(ana, "accepted").locator(".component-button").count()) === 0);
});

test("a modal: filled with the keyboard, checked, sent; Escape sends nothing", async () => {
  await begin("form");
  await ana.keyboard.press("Enter");
  const dialog = ana.getByRole("dialog", { name: "Report a broken lamp" });
  await dialog.waitFor();
  assert.deepEqual([await violations(ana), await overflow(ana)], [[], 0]);
  await ana.keyboard.press("Escape");
  await until("the modal to close", async () => (await dialog.count()) === 0);
  await begin("form");
  await ana.keyboard.press("Enter");
  await dialog.waitFor();
  await until("focus in the first field", () => ana.evaluate(() => document.activeElement?.id === "modal-0"));
  await ana.keyboard.type("ab");
  await ana.keyboard.press("Enter");
  await dialog.getByText("“What is broken” has at least 3 characters.").waitFor();
  await ana.keyboard.type("c");
  await dialog.getByLabel("Details").fill("the wick is gone");
  await dialog.getByLabel("How urgent").selectOption("Some day");
  const user = await node.rest("GET", "/users/@me", undefined, node.demo.user_token);
  await dialog.getByRole("combobox", { name: "Who looks after it" }).fill(user.username);
  await dialog.getByRole("option", { name: user.username }).first().click();
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await message(ana, `report ["abc","the wick is gone",["s"],["${user.id}"]]`).waitFor();
  assert.equal(await dialog.count(), 0);
});

test("a command on a message is in its menu", async () => {
  await say(ana, "one two three");
  await message(ana, "one two three").hover();
  await message(ana, "one two three").getByRole("button", { name: "More" }).click();
  await ana.getByRole("menuitem", { name: "Count words" }).click();
  await message(ana, "3 words").getByText("Only you can see this").waitFor();
});

test("a command on an account is in its profile", async () => {
  await message(ana, "pong").locator(".author").click();
  await ana.getByRole("dialog").getByRole("button", { name: "Wave at" }).click();
  await message(ana, "waves at guildhall_bot").getByText("used Wave at").waitFor();
});

test("components of the second version have buttons that work", async () => {
  await node.rest("POST", `/channels/${node.demo.channel_ids[0]}/messages`, { flags: COMPONENTS_V2, components: [{ type: 17, components: [{ type: 9, components: [{ type: 10, content: "Oil: 40 l" }], accessory: { type: 2, style: 2, label: "Order", custom_id: "order" } }] }] });
  await ana.locator(".container", { hasText: "Oil: 40 l" }).last().getByRole("button", { name: "Order" }).click();
  await message(ana, "component order:").waitFor();
});

test("what was for one reader is gone after a reload; the answers for all stay", async () => {
  await ana.reload();
  await message(ana, "accepted").waitFor();
  assert.equal(await ana.locator(".only-you").count(), 0);
  await open(ana, "random");
  await open(ana, "general");
});

for (const [colorScheme, width] of [["light", 1440], ["dark", 390]]) {
  test(`nothing is wider than the screen, and axe finds nothing: ${colorScheme}, ${width} px`, async () => {
    const page = await visit(node, { colorScheme, viewport: { width, height: 844 }, hasTouch: width < 400 });
    await page.locator("#composer").fill("/say some words");
    await page.locator("#composer").press("Enter");
    await page.locator(".command-form").waitFor();
    assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
    await page.getByRole("button", { name: "Leave the command" }).click();
    await page.locator("#composer").fill("/form");
    await page.locator("#suggestions [role=option]").first().click();
    await page.getByRole("button", { name: "Send /form" }).click();
    await page.getByRole("dialog", { name: "Report a broken lamp" }).waitFor();
    assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
}

test("the console is silent", () => assert.deepEqual([ana.complaints, ben.complaints], [[], []]));
