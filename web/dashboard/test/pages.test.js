// Every page against invented figures: log-in, both themes, a phone, axe; a key that only reads, a node that is quiet, one that goes away.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KEY, Stub } from "./stub.js";
import { closeBrowser, go, overflow, PAGES, show, until, violations, visit } from "./support.js";

let node;
before(async () => { node = await Stub.busy(); });
after(async () => {
  await closeBrowser();
  node.stop();
});

const open = (stub, options) => visit(stub, { key: KEY, ...options });

test("a wrong key is refused, the right one opens the requested page", async () => {
  const page = await visit(node, { key: null, path: "guilds" });
  assert.deepEqual(await violations(page), []);
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "not valid" }).waitFor();
  await page.getByLabel("Admin key").fill(KEY);
  await page.keyboard.press("Enter");
  await page.locator("main > header h1", { hasText: "Guilds" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Admin key").waitFor();
  await page.context().close();
});

for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["on a phone", { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
  test(`every page, ${name}: figures, no complaint, no violation, no overflow`, async () => {
    const page = await open(node, options);
    for (const path of PAGES) {
      await show(page, path);
      assert.equal(await overflow(page), 0, path);
      assert.deepEqual(await violations(page), [], path);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
}

test("for a key that only reads the page has no actions, and names the scope that sessions need", async (t) => {
  const reader = await Stub.start({ scopes: ["read"] });
  t.after(() => reader.stop());
  const page = await open(reader, { path: "operations" });
  await page.getByText("This key reads only").waitFor();
  assert.equal(await page.getByRole("button", { name: /Drain|Reload/ }).count(), 0);
  await go(page, "Sessions");
  await page.locator(".fault", { hasText: "scope `sessions`" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.context().close();
});

test("a quiet node: every page describes its future contents", async (t) => {
  const quiet = await Stub.start({ isEmpty: true });
  t.after(() => quiet.stop());
  const page = await open(quiet);
  for (const [name, text] of [["Overview", "Nothing needs you"], ["Bandwidth", "Nothing is sent"], ["Guilds", "No guild is loaded"], ["Sessions", "No session"], ["Operations", "Nobody was refused"]]) {
    await go(page, name);
    await page.getByText(text).first().waitFor();
    assert.deepEqual(await violations(page), [], name);
  }
  await page.context().close();
});

test("the page reports a node that goes away, and greys its figures", async (t) => {
  const failing = await Stub.start();
  t.after(() => failing.stop());
  const page = await open(failing);
  await page.locator(".status", { hasText: "Live" }).waitFor();
  failing.break();
  await page.locator(".status", { hasText: /Disconnected, retrying/ }).waitFor();
  await page.locator(".shell.stale").waitFor();
  failing.isBroken = false;
  await page.locator(".status", { hasText: "Live" }).waitFor();
  await until("colour", async () => (await page.locator(".shell.stale").count()) === 0);
  await page.context().close();
});

test("a chosen theme stays", async () => {
  const page = await open(node, { colorScheme: "light" });
  await page.getByLabel("Theme").selectOption("dark");
  await page.reload();
  await page.locator(".tile").first().waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.context().close();
});

test("reload needs a confirmation and lists the changes", async () => {
  const page = await open(node, { path: "operations" });
  await page.getByRole("button", { name: "Reload configuration" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reload configuration" }).click();
  await page.locator(".notice", { hasText: "In force: log.level" }).waitFor();
  await page.context().close();
});
