// What is on the screen: member list far down, keyboard alone, a phone, both themes by axe, many messages a second.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { closeBrowser, message, messages, Node, open, openBrowser, until, visit } from "./support.js";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
let node;

before(async () => { node = await Node.start({ members: 10_000, rate: 0 }); });
after(async () => {
  await closeBrowser();
  await node?.stop();
});

/** Violations by axe, each with the elements that it means. */
async function violations(page) {
  // The page permits no foreign script: the test's is put in through the debugger.
  const source = (await import("node:fs")).readFileSync(axe, "utf8");
  await page.evaluate(source);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((each) => `${each.target} ${each.any[0]?.message ?? ""}`).join("; ")}`);
}

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("the member list scrolls to row 4,000 of 4,500 and draws a screenful", async () => {
  const page = await visit(node);
  const list = page.locator(".member-scroll");
  await page.locator(".member .name").first().waitFor();
  for (const row of [700, 2000, 4000]) {
    await list.evaluate((element, top) => { element.scrollTop = top; }, row * 44);
    await until(`row ${row}`, async () => (await page.locator(".member.skeleton").count()) === 0 && (await page.locator(".member .name").count()) > 5);
    const drawn = await page.locator(".member-rows > *").count();
    assert.ok(drawn < 60, `${drawn} rows are drawn`);
  }
  await list.evaluate((element) => { element.scrollTop = 0; });
  await page.locator(".member-group", { hasText: "Moderator" }).waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("members are found by name", async () => {
  const page = await visit(node);
  await page.locator("body").press("Escape");
  await page.locator(".messages").focus();
  await page.keyboard.press("/");
  await page.keyboard.type("a");
  await page.locator(".member-scroll.found .member").first().waitFor();
  await page.locator(".member-scroll.found .member").first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Message" }).waitFor();
  await page.keyboard.press("Escape");
  await until("the profile to close", async () => (await page.getByRole("dialog").count()) === 0);
  await page.context().close();
});

test("with the keyboard alone: log in, write, react, reply, edit, switch", async () => {
  const context = await (await openBrowser()).newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(`${node.origin}/chat/`);
  await page.getByRole("button", { name: "Join as a visitor" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("#composer").waitFor();
  await until("focus in the composer", () => page.evaluate(() => document.activeElement?.id === "composer"));
  await page.keyboard.type("typed by hand");
  await page.keyboard.press("Enter");
  const own = message(page, "typed by hand");
  await own.and(page.locator(".message:not(.sending)")).waitFor();
  await page.keyboard.press("ArrowUp");
  await page.getByLabel("Edit the message").waitFor();
  await page.keyboard.type(", twice");
  await page.keyboard.press("Enter");
  await message(page, "typed by hand, twice").locator(".edited").waitFor();
  await until("focus in the composer again", () => page.evaluate(() => document.activeElement?.id === "composer"));
  await page.keyboard.press("Shift+Tab");
  await until("focus off the composer", () => page.evaluate(() => document.activeElement?.id !== "composer"));
  await message(page, "typed by hand, twice").focus();
  await page.keyboard.press("+");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Enter");
  await message(page, "typed by hand, twice").locator(".reactions .mine").waitFor();
  await message(page, "typed by hand, twice").focus();
  await page.keyboard.press("r");
  await page.locator(".replying").waitFor();
  await page.keyboard.type("to myself");
  await page.keyboard.press("Enter");
  await message(page, "to myself").locator(".quoted").waitFor();
  await page.keyboard.press("Alt+ArrowDown");
  await page.locator(".channel-head h2", { hasText: "random" }).waitFor();
  await context.close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    const page = await visit(node, { colorScheme });
    for (let n = 0; n < 3; n++) await node.say(0, "**bold** `code` ||spoiler|| <@1> https://example.net\n> quoted\n- one\n- two\n```js\nlet x = 1;\n```");
    await message(page, "spoiler").waitFor();
    await until("members", async () => (await page.locator(".member .name").count()) > 5);
    assert.deepEqual(await violations(page), []);
    await page.locator(".meter-strip").click();
    await page.locator(".meter table").first().waitFor();
    assert.deepEqual(await violations(page), [], "with the meter");
    await page.locator(".message .author").first().click();
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await violations(page), [], "with a profile");
    await page.context().close();
  });

  test(`a phone, ${colorScheme}`, async () => {
    const page = await visit(node, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme });
    await page.locator("#composer").fill("from a phone");
    await page.getByRole("button", { name: "Send" }).tap();
    await message(page, "from a phone").waitFor();
    for (const tab of ["Channels", "Members", "Meter", "Chat"]) {
      await page.getByRole("navigation", { name: "Views" }).getByRole("button", { name: tab }).tap();
      assert.equal(await overflow(page), 0, `${tab} is not wider than the screen`);
      assert.deepEqual(await violations(page), [], tab);
    }
    await page.getByRole("navigation", { name: "Views" }).getByRole("button", { name: "Channels" }).tap();
    await page.locator('.channel[data-channel="random"]').tap();
    await page.locator(".channel-head h2", { hasText: "random" }).waitFor();
    const small = await page.evaluate(() => [...document.querySelectorAll(".tabs button, .composer button, .channel-head button")].filter((b) => b.offsetParent && (b.offsetHeight < 44 || b.offsetWidth < 44)).map((b) => b.outerHTML.slice(0, 80)));
    assert.deepEqual(small, [], "targets of 44 px");
    await page.context().close();
  });
}

test("the log-in, by axe and at both widths", async () => {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    const context = await (await openBrowser()).newContext({ viewport, colorScheme: viewport.width > 400 ? "light" : "dark" });
    const page = await context.newPage();
    await page.goto(`${node.origin}/chat/`);
    await page.getByRole("button", { name: "Join as a visitor" }).waitFor();
    assert.deepEqual([await violations(page), await overflow(page)], [[], 0]);
    await page.getByLabel("Or log in with a user token").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").locator(".fault").waitFor();
    await context.close();
  }
});

test("fifty messages a second: no frame takes longer than a tenth of a second for most, and the end stays in view", async () => {
  const page = await visit(node);
  await page.evaluate(() => {
    window.frames50 = [];
    let last = performance.now();
    const tick = (now) => { window.frames50.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
    window.shift = 0;
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value; }).observe({ type: "layout-shift", buffered: false });
  });
  const started = Date.now();
  for (let n = 0; n < 150; n += 5) {
    await Promise.all([0, 1, 2, 3, 4].map((m) => node.say(0, `burst ${n + m}`)));
    const ahead = started + (n + 5) * 20 - Date.now();
    if (ahead > 0) await new Promise((resume) => setTimeout(resume, ahead));
  }
  await until("the last of them", async () => (await messages(page).filter({ hasText: "burst" }).count()) >= 100);
  const { frames, fromBottom } = await page.evaluate(() => {
    const box = document.querySelector(".messages");
    return { frames: window.frames50.slice(5).sort((a, b) => a - b), fromBottom: box.scrollHeight - box.scrollTop - box.clientHeight };
  });
  const at = (share) => Math.round(frames[Math.floor((frames.length - 1) * share)]);
  console.log(`# frames: median ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms of ${frames.length}`);
  assert.ok(at(0.5) <= 34 && at(0.95) <= 100, `median ${at(0.5)} ms, p95 ${at(0.95)} ms`);
  assert.ok(fromBottom < 60, `${fromBottom} px from the end`);
  await page.context().close();
});
