// The keyboard and the focus, completion in the message box, emoji, the theme, and notices next to the message box.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, message, Node, open, say, until, violations, visit } from "./support.js";

let node, page;

before(async () => {
  node = await Node.start();
  page = await visit(node);
});
after(async () => {
  await closeBrowser();
  await node?.stop();
});

const focusIs = (what, check, argument) => until(what, () => page.evaluate(check, argument));
const inComposer = (what) => focusIs(what, () => document.activeElement?.id === "composer");
const onMessage = (text) => focusIs(`focus on “${text}”`, (wanted) => document.activeElement?.matches(".message") && document.activeElement.textContent.includes(wanted), text);
const composer = () => page.locator("#composer");
const newestContent = async (channel = 0) => (await node.rest("GET", `/channels/${node.demo.channel_ids[channel]}/messages?limit=1`))[0].content;

/** Sends what is written, and waits for what the node got of it. */
async function send(written, content) {
  await composer().fill(written);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  let last;
  await until(`the content ${content}`, async () => (last = await newestContent()) === content).catch((error) => { throw new Error(`${error.message}; it is ${last}`); });
}

test("Shift + Tab from the message box: the newest message; Escape leads back", async () => {
  await say(page, "the newest of all");
  await composer().focus();
  await page.keyboard.press("Shift+Tab");
  await onMessage("the newest of all");
  await page.keyboard.press("Escape");
  await inComposer("focus in the message box");
});

test("a delete needs a confirmation; then the next message has the focus, or the message box", async () => {
  for (const text of ["first to go", "second to go", "third stays"]) await say(page, text);
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  await onMessage("first to go");
  await page.keyboard.press("Delete");
  const dialog = page.getByRole("dialog", { name: "Delete the message" });
  await dialog.getByText("first to go").waitFor();
  await page.keyboard.press("Escape");
  await onMessage("first to go");
  await page.keyboard.press("Delete");
  await dialog.waitFor();
  await page.keyboard.press("Enter");
  await onMessage("second to go");
  // The focus moves before the frame in which the message goes.
  await until("the first message to go", async () => (await page.locator(".content", { hasText: "first to go" }).count()) === 0);

  await message(page, "third stays").hover();
  await message(page, "third stays").getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete message" }).click();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await until("the dialog to close", async () => (await dialog.count()) === 0);
  await message(page, "third stays").getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete message" }).click();
  await dialog.getByRole("button", { name: "Delete message" }).click();
  await until("the message to go", async () => (await page.locator(".content", { hasText: "third stays" }).count()) === 0);
  await inComposer("focus in the message box after the newest message");
});

test("the search: Ctrl + K from the message box, / from elsewhere, Escape back", async () => {
  const inSearch = () => focusIs("focus in the search", () => document.activeElement?.matches(".members input"));
  await composer().focus();
  await page.keyboard.press("Control+k");
  await inSearch();
  await page.keyboard.type("zzzz");
  await page.locator(".member-scroll.found .empty").waitFor();
  await page.keyboard.press("Escape");
  await inComposer("focus in the message box after the search");
  assert.equal(await page.locator(".members input").inputValue(), "");
  await page.keyboard.type("a/b");
  assert.equal(await composer().inputValue(), "a/b");
  await composer().fill("");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("/");
  await inSearch();
  await page.keyboard.press("Escape");
});

test("members are found by the middle of their name, and the arrows lead into the list", async () => {
  const name = await page.locator(".member .name").nth(2).innerText();
  const middle = name.slice(1, 5);
  await page.locator(".members input").fill(middle);
  await page.locator(".member-scroll.found .member", { hasText: name }).waitFor();
  await page.locator(".members input").press("ArrowDown");
  await focusIs("focus on the first hit", () => document.activeElement?.matches(".found .member"));
  await page.keyboard.press("Escape");
  await inComposer("focus in the message box");
});

test("the name of a thread is selected: typed text replaces it", async () => {
  await say(page, "let us talk about wicks");
  await message(page, "let us talk about wicks").hover();
  await message(page, "let us talk about wicks").getByRole("button", { name: "More" }).click();
  await page.keyboard.press("End");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /Delete message|Copy text/);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /Start a thread/, "it goes round");
  await page.getByRole("menuitem", { name: "Start a thread" }).click();
  await page.getByLabel("Name of the thread").waitFor();
  await page.keyboard.type("Wicks only");
  assert.equal(await page.getByLabel("Name of the thread").inputValue(), "Wicks only");
  await page.keyboard.press("Escape");
});

test("# completes channels; a name that is written out is a link as well", async () => {
  const random = node.demo.channel_ids[1];
  await composer().focus();
  await page.keyboard.type("see #ran");
  await page.locator("#suggestions [role=option]", { hasText: "random" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await composer().inputValue(), "see #random ");
  await page.keyboard.type("please");
  await page.keyboard.press("Enter");
  await until("the message", async () => (await newestContent()) === `see <#${random}> please`);
  await send("also #Random, and `#random` not, nor x#random", `also <#${random}>, and \`#random\` not, nor x#random`);
  await message(page, "also").locator("button.mention", { hasText: "#random" }).click();
  await page.locator(".channel-head h2", { hasText: "random" }).waitFor();
  await open(page, "general");
  // All channels, after the sign alone.
  await composer().focus();
  await page.keyboard.type("#");
  await until("several channels", async () => (await page.locator("#suggestions [role=option]").count()) > 3);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#suggestions").count(), 0);
  await composer().fill("");
});

test(": completes emoji; a short name that is written out becomes one, a time of day does not", async () => {
  await composer().focus();
  await page.keyboard.type("well done :tad");
  await page.locator("#suggestions [role=option]", { hasText: ":tada:" }).waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await composer().inputValue(), "well done 🎉 ");
  await page.keyboard.press("Enter");
  await until("the message", async () => (await newestContent()) === "well done 🎉");
  await send("at 10:30:45 we :rocket: `:rocket:` :nosuchthing:", "at 10:30:45 we 🚀 `:rocket:` :nosuchthing:");
});

test("a mention is edited as it is written, and stays one", async () => {
  const user = await node.rest("GET", "/users/@me", undefined, node.demo.user_token);
  await composer().focus();
  await page.keyboard.type(`ask @${user.username.slice(0, 4)}`);
  await page.locator("#suggestions [role=option]", { hasText: user.username }).first().waitFor();
  await page.locator("#suggestions [role=option]", { hasText: user.username }).first().click();
  // The first Enter takes the channel, the second one sends.
  await page.keyboard.type("about #random");
  await page.locator("#suggestions [role=option]", { hasText: "random" }).waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  const sent = `ask <@${user.id}> about <#${node.demo.channel_ids[1]}>`;
  let last;
  await until("the message", async () => (last = await newestContent()) === sent).catch((error) => { throw new Error(`${error.message}; it is ${last}, of ${JSON.stringify(user)}`); });
  await page.locator(".message:not(.sending)", { hasText: "about" }).last().waitFor();
  await until("the message box to be empty", async () => (await composer().inputValue()) === "");
  await page.keyboard.press("ArrowUp");
  const box = page.getByLabel("Edit the message");
  await box.waitFor();
  assert.equal(await box.inputValue(), `ask @${user.username} about #random`);
  await page.keyboard.type(" :eyes:");
  await page.keyboard.press("Enter");
  await until("the edit", async () => (await newestContent()) === `${sent} 👀`);
  await inComposer("focus in the message box");
});

test("emoji are searched, and put in at the caret; as a reaction too", async () => {
  await composer().fill("ab");
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("button", { name: "Emoji" }).click();
  await page.keyboard.type("lobster");
  await page.getByRole("button", { name: "Insert 🦞" }).waitFor();
  await page.keyboard.press("Enter");
  await until("the emoji", async () => (await composer().inputValue()) === "a🦞b");
  await inComposer("focus in the message box");
  await page.getByRole("button", { name: "Emoji" }).click();
  await page.getByLabel("Find an emoji").waitFor();
  await page.keyboard.press("Escape");
  await inComposer("focus in the message box again");
  await composer().fill("");
  await say(page, "react to me");
  await message(page, "react to me").hover();
  await message(page, "react to me").getByRole("button", { name: "React" }).click();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.type("sea");
  await page.keyboard.press("ArrowRight");
  const chosen = await page.locator(".emoji-grid .at").innerText();
  await page.keyboard.press("Enter");
  await message(page, "react to me").locator(".reactions .mine", { hasText: chosen }).waitFor();
});

test("notices are next to the message box, and go with their cause", async () => {
  await composer().fill("x".repeat(2100));
  await page.keyboard.press("Enter");
  const toast = page.locator(".toast", { hasText: "2,000 characters" });
  await toast.waitFor();
  const [told, box] = await Promise.all([toast.boundingBox(), page.locator(".composer").boundingBox()]);
  assert.ok(told.y + told.height <= box.y, `${JSON.stringify(told)} and ${JSON.stringify(box)}`);
  await page.keyboard.press("End");
  await page.keyboard.press("Backspace");
  await until("it to go with the text", async () => (await toast.count()) === 0);
  await composer().fill("x".repeat(2100));
  await page.keyboard.press("Enter");
  await toast.waitFor();
  await open(page, "random");
  assert.equal(await toast.count(), 0, "another channel, another message");
  await open(page, "general");
  await composer().fill("");
});

test("the newest message does not touch the message box", async () => {
  await say(page, "room below me");
  const gap = await page.evaluate(() => document.querySelector(".composer").getBoundingClientRect().top - [...document.querySelectorAll(".message")].at(-1).getBoundingClientRect().bottom);
  assert.ok(gap >= 12, `${gap} px`);
});

test("the theme is chosen, and stays", async () => {
  const shown = () => page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
  const choose = async (name) => {
    await page.getByRole("button", { name: "Theme" }).click();
    await page.getByRole("menuitemradio", { name }).click();
  };
  assert.deepEqual(await shown(), ["light", "rgb(255, 255, 255)"]);
  await choose("Dark");
  assert.deepEqual(await shown(), ["dark", "rgb(14, 17, 22)"]);
  await page.reload();
  await composer().waitFor();
  assert.deepEqual(await shown(), ["dark", "rgb(14, 17, 22)"]);
  assert.deepEqual(await violations(page), []);
  await choose("As the system");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await until(`the system's theme, ${colorScheme}`, async () => (await shown())[0] === colorScheme);
  }
});

test("the console is silent", () => assert.deepEqual(page.complaints, []));
