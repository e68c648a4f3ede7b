// Every page and state against invented figures: log-in, sort, filter, drill-down, actions, themes, keyboard, a phone, axe.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accountId, guildId, KEY, Stub } from "./stub.js";
import { closeBrowser, overflow, until, violations, visit } from "./support.js";

/** Of a table that scrolls by 400 pixels, twelve and a half rows, in each of 60 frames. */
const [FRAMES, PIXELS, ROW] = [60, 400, 32];
const PAGES = ["overview", "bandwidth", "guilds", `guilds/${guildId(0)}`, "sessions", "compression", "lab", "experiments", "experiments/zstd-3", "operations"];
let node;
before(async () => {
  node = await Stub.start();
  node.launch();
  node.experiment({ name: "zstd-3", layer: "default", permille: 100, arms: [{ name: "control", weight: 1 }, { name: "level-3", weight: 1, arm: "zstd:level=3" }, { name: "shared", weight: 1, policy: "shared-match" }], audience: { platforms: ["web"], bots: false, guild_id: null }, alpha: 0.05, tolerance_percent: 5, samples_min: 200, reconnect_on_rollback: true });
});
after(async () => {
  await closeBrowser();
  node.stop();
});

const open = (stub, options) => visit(stub, { key: KEY, ...options });
const go = async (page, name) => {
  await page.getByRole("navigation").getByRole("link", { name }).click();
  await page.locator("main > header h1", { hasText: name }).waitFor();
};

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
      await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
      await page.locator(".answer, .findings").first().waitFor();
      await until(`${path} to load`, async () => (await page.locator(".skeleton").count()) === 0);
      assert.equal(await overflow(page), 0, path);
      assert.deepEqual(await violations(page), [], path);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
}

test("the overview lists the nodes of a cluster, and a click shows another one", async () => {
  const nodes = ["berlin-1", "berlin-2"].map((name, number) => ({ number, name, url: "ws://x", version: "0.1.0", state: number ? "draining" : "active", own: number === 0 }));
  const stub = await Stub.start({ nodes });
  const page = await open(stub);
  const list = page.getByRole("region", { name: "Nodes of the cluster" }).getByRole("listitem");
  await list.filter({ hasText: "berlin-2 (number 1): draining" }).waitFor();
  assert.equal(await page.locator(".brand").textContent(), "Guildhall");
  assert.ok(stub.nodesAsked.every((node) => node === null));
  stub.nodesAsked.length = 0;
  await list.getByRole("link", { name: "berlin-2" }).click();
  await list.filter({ hasText: "berlin-2 (number 1): draining, version 0.1.0; this page shows it" }).waitFor();
  await page.locator(".status", { hasText: "Live" }).waitFor();
  assert.equal(await page.locator(".brand").textContent(), "Guildhall · node 1");
  assert.ok(stub.nodesAsked.length > 2 && stub.nodesAsked.every((node) => node === "1"), `${stub.nodesAsked}`);
  assert.equal(await overflow(page), 0);
  assert.deepEqual(await violations(page), []);
  stub.nodesAsked.length = 0;
  await list.getByRole("link", { name: "berlin-1" }).click();
  await list.filter({ hasText: "berlin-1 (number 0): active, version 0.1.0; this page shows it; it answers this page" }).waitFor();
  assert.ok(stub.nodesAsked.every((node) => node === null));
  await page.context().close();
  stub.stop();
});

test("the overview shows guilds on their way, the last moves with their reasons, and the load of each node", async () => {
  const nodes = ["berlin-1", "berlin-2"].map((name, number) => ({ number, name, url: "ws://x", version: "0.1.0", state: "active", own: number === 0, load: { workers_busy_percent: [3, number ? 22 : 70.6], memory_bytes: 4e9, memory_bytes_max: 1e10, balance: true } }));
  const reason = "its worker is busy 71 % at node 0 and 22 % at node 1; the guild takes 18 %";
  const move = (id, from, to) => ({ guild_id: `11000000000000000${id}`, from, to, reason, bytes: 12_345_678, rounds: 3 });
  const moves = {
    leaving: [{ ...move("01", 0, 1), step: "freeze", frozen: true, age_ms: 1_200 }, { ...move("02", 1, 0), reason: "its node drains", step: "members", frozen: false, age_ms: 40_000, rounds: 0 }],
    ended: [
      { ...move("03", 0, 1), ended_at_ms: Date.now() - 200_000, total_ms: 812, frozen_ms: 4, fault: null },
      { ...move("04", 1, 0), reason: "it was requested", ended_at_ms: Date.now() - 900_000, total_ms: 2_004, frozen_ms: 0, bytes: 0, rounds: 0, fault: "the guild had work under way that did not end within 2 seconds: try again later" },
    ],
    missing: [],
  };
  const stub = await Stub.start({ nodes, moves });
  for (const options of [{ viewport: { width: 1440, height: 900 } }, { viewport: { width: 390, height: 844 } }]) {
    const page = await open(stub, options);
    const list = page.getByRole("region", { name: "Nodes of the cluster" }).getByRole("listitem");
    await list.filter({ hasText: "berlin-1 (number 0): active, version 0.1.0, busiest guild worker 70.6 %, memory 40 % in use; this page shows it" }).waitFor();
    const region = page.getByRole("region", { name: "Moves of guilds" });
    await region.getByText("2 guilds are on the way. The last move ended 3 min ago; requests waited 4 ms.").waitFor();
    const items = region.getByRole("listitem");
    await page.getByText("2 guilds move to another node now").waitFor();
    await items.filter({ hasText: "requests wait for the last changes" }).filter({ hasText: "12.3 MB, 3 rounds" }).filter({ hasText: reason }).waitFor();
    await items.filter({ hasText: "sends its members" }).filter({ hasText: "for 40 s" }).waitFor();
    await items.filter({ hasText: "requests waited 4 ms" }).filter({ hasText: "took 812 ms, 3 min ago" }).waitFor();
    await items.filter({ hasText: "not moved" }).filter({ hasText: "it was requested; it stayed: the guild had work under way" }).waitFor();
    assert.equal(await items.filter({ hasText: "took 812 ms" }).getByRole("link").getAttribute("href"), "./?node=1#/guilds/1100000000000000003", "the page of the guild is at its owner");
    assert.equal(await overflow(page), 0);
    assert.deepEqual(await violations(page), []);
    if (process.env.PICTURES) { await region.screenshot({ path: `${process.env.PICTURES}/moves-${options.viewport.width}.png` }); await page.screenshot({ path: `${process.env.PICTURES}/top-${options.viewport.width}.png` }); }
    stub.moves = { leaving: [], ended: [], missing: [1] };
    await region.getByText("No guild is on its way. None has moved since the nodes started").waitFor();
    await region.getByText("Moves of berlin-2 are missing: it does not answer.").waitFor();
    stub.moves = moves;
    await page.context().close();
  }
  stub.stop();
});

test("tables: no text is cut off, with each column sorted; at 1,280 pixels none scrolls sideways", async () => {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    const page = await open(node, { viewport });
    for (const path of [...PAGES, `sessions/${node.session(3).id}`]) {
      await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
      await page.locator(".answer, .findings").first().waitFor();
      await until(`${path} to load`, async () => (await page.locator(".skeleton").count()) === 0);
      const cut = await page.evaluate(async () => {
        const found = new Set();
        for (const table of document.querySelectorAll(".table")) {
          const name = table.getAttribute("aria-label");
          if (innerWidth >= 1280 && table.scrollWidth > table.clientWidth) found.add(`${name} is ${table.scrollWidth} wide in ${table.clientWidth}`);
          for (const button of table.querySelectorAll("th button")) {
            button.click();
            await new Promise((resume) => requestAnimationFrame(() => setTimeout(resume)));
            // Names that people choose are whole as titles; on a phone the first column is narrow, and its rows open.
            for (const each of [button, ...table.querySelectorAll(innerWidth >= 1280 ? "td:not(:has(a))" : "td:not(:first-child)")]) if (each.scrollWidth > each.clientWidth) found.add(`${name}: ${each.textContent} ${each.scrollWidth} in ${each.clientWidth}`);
          }
        }
        return [...found];
      });
      assert.deepEqual(cut, [], `${path} at ${viewport.width}`);
    }
    await page.context().close();
  }
});

test("compression: what each codec saves and costs", async () => {
  const page = await open(node, { path: "compression" });
  await page.locator(".answer", { hasText: "of the uncompressed bytes, and compression holds 161 MB of memory" }).waitFor();
  await page.locator(".chart", { hasText: "Sent of uncompressed bytes, by codec" }).filter({ hasText: /zlib-stream \d+(\.\d+)? %/ }).waitFor();
  const time = page.locator(".chart", { hasText: "Time to compress one dispatch" });
  await time.getByRole("button", { name: "Table" }).click();
  await time.locator("tbody td", { hasText: "30 µs" }).first().waitFor();
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the overview is live, has a table behind each chart, and other ranges", async () => {
  const page = await open(node);
  await page.locator(".status", { hasText: "Live" }).waitFor();
  const tile = page.locator(".tile", { hasText: "Deliveries" }).locator(".value");
  const first = await tile.getAttribute("title");
  await until("another sample", async () => (await tile.getAttribute("title")) !== first);
  await page.locator(".chart", { hasText: "CPU by loop" }).getByRole("button", { name: "Table" }).click();
  await page.locator(".chart .figures tbody tr").first().waitFor();
  // REST requests wait most of their time: 109 at once are no cores, and no trouble.
  const loops = page.locator(".chart", { hasText: "CPU by loop" }).locator(".figures");
  assert.match(await loops.textContent(), /partition/);
  assert.doesNotMatch(await loops.textContent(), /rest/);
  assert.equal(await page.locator(".findings", { hasText: "rest" }).count(), 0);
  await page.getByRole("button", { name: "1 h" }).click();
  await page.locator(".segments [aria-pressed=true]", { hasText: "1 h" }).waitFor();
  await until("an hour", () => node.asked.some((path) => path === "GET v1/node/history"));
  assert.deepEqual(page.complaints, []);
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

test("bandwidth: shares by dispatch type, sorted by another column", async () => {
  const page = await open(node, { path: "bandwidth" });
  await page.locator(".answer", { hasText: "% of" }).waitFor();
  const types = page.getByRole("region", { name: "Dispatch types" });
  const shares = await types.locator("tbody tr td:nth-child(3)").allTextContents();
  const sum = shares.reduce((all, text) => all + Number.parseFloat(text), 0);
  assert.ok(Math.abs(sum - 100) < 1, `${shares}`);
  // The bill: what zlib-stream would have cost, of the bytes without compression.
  await page.getByText("estimated from", { exact: false }).waitFor();
  await page.getByText("the CPU budget ended the sample of 1.").waitFor();
  assert.match(await page.locator('.table tr[data-id="MESSAGE_CREATE"] td:nth-child(9)').textContent(), /^33(\.\d)? %$/);
  await page.getByRole("button", { name: "Dispatches/s" }).click();
  await page.locator("th[aria-sort=descending]", { hasText: "Dispatches/s" }).waitFor();
  assert.equal(await types.locator("tbody tr").first().getAttribute("data-id"), "PRESENCE_UPDATE");
  // What each writer costs; one that wrote nothing has no row.
  const writers = page.getByRole("region", { name: "Writers of streams" });
  const cells = async (writer) => (await writers.locator(`tr[data-id="${writer}"]`).locator("td, th").allTextContents()).slice(1);
  assert.match((await cells("per-connection")).join("|"), /^3\|[\d.]+ [kMG]B\|20 %\|–\|–\|643 kB\|14 µs$/);
  assert.match((await cells("shared-match")).join("|"), /^57\|[\d.]+ [kMG]B\|20 %\|0\.\d+ ×\|[\d.]+ ×\|3\.0 kB\|600 ns$/);
  assert.equal(await writers.locator("tbody tr").count(), 2);
  await page.context().close();
});

test("the page of a session shows the cost of its stream, and why it left its context", async () => {
  const page = await open(node, { path: "sessions" });
  await page.locator(".table tbody tr", { hasText: "zlib-stream" }).first().click();
  await page.locator("dd", { hasText: "3.0 kB of memory, 2.5 µs of CPU time a message (mean of 12); left its context: its events have many recipients" }).waitFor();
  await page.locator("dd", { hasText: "1.2 × of zlib-stream, 1.5 × of zstd-stream, over 800 frames" }).waitFor();
  await page.locator(".tile", { hasText: "written by shared-match for" }).waitFor();
  await page.context().close();
});

test("dispatch types have colours of their own, the same on every node", async (t) => {
  const colours = async (stub) => {
    const page = await open(stub, { path: "bandwidth" });
    const bars = page.locator(".bars", { hasText: "Share of bytes" }).locator("li");
    await bars.first().waitFor();
    const found = await bars.evaluateAll((rows) => Object.fromEntries(rows.map((row) => [row.querySelector(".bar-label").textContent, row.querySelector("i").style.background])));
    await page.context().close();
    return found;
  };
  const other = await Stub.start({ grown: "MESSAGE_CREATE" });
  t.after(() => other.stop());
  const found = await colours(node);
  assert.deepEqual(found, await colours(other));
  assert.equal(new Set(Object.values(found)).size, Object.keys(found).length, JSON.stringify(found));
});

test("troubles are findings: a relay that does not deliver, and a type that has grown", async (t) => {
  const ill = await Stub.start({ ghosts: 1, grown: "TYPING_START" });
  t.after(() => ill.stop());
  const page = await open(ill);
  await page.locator(".findings li.bad", { hasText: "1 relay does not deliver" }).waitFor();
  await page.locator(".findings li.warn", { hasText: "TYPING_START has grown to 2 × its size: 190 B 55 min ago, 380 B in the last minute" }).getByRole("link").click();
  await page.locator(".grown", { hasText: "from 190 B 55 min ago to 380 B each in the last minute" }).waitFor();
  await page.locator(".bars", { hasText: "Growth by dispatch type" }).locator("li", { hasText: "TYPING_START" }).filter({ hasText: "2 × 190 B → 380 B" }).waitFor();
  await page.locator(".table tr[data-id=TYPING_START]", { hasText: "▲ 2 ×" }).waitFor();
  assert.equal(await page.locator(".table td.warn").count(), 1);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the overview has the wall time of routes and message types", async () => {
  const page = await open(node);
  const table = page.getByRole("region", { name: "Message types" });
  const route = table.locator("tr", { hasText: "POST /api/channels/{channel_id}/messages" });
  await route.waitFor();
  await until("a rate", async () => /REST.*3[4-8](\.\d)?\sms9\sms54\sms/s.test(await route.textContent()));
  await table.getByRole("button", { name: "p99" }).click();
  assert.match(await table.locator("tbody tr").first().textContent(), /POST/);
  await page.context().close();
});

test("channels and guilds go by their names, with the id on hover; without a name by the id", async () => {
  const page = await open(node, { path: `guilds/${guildId(1)}` });
  const channels = page.locator(".bars", { hasText: "Events by channel" }).locator("li");
  await channels.first().waitFor();
  assert.deepEqual(await channels.locator(".bar-label").allTextContents(), ["general", "general", "1100000000000000003", "1100000000000000004"]);
  assert.equal(await channels.nth(1).getAttribute("title"), "311; id 1100000000000000002");
  await until("rates", async () => {
    const notes = await channels.locator("small").allTextContents();
    return JSON.stringify(notes.map((note) => note.trim())) === JSON.stringify(["0/s", "0/s, voice", "0/s, private thread", "0/s, deleted"]);
  });
  await go(page, "Sessions");
  await page.locator(".table tbody tr").first().click();
  const guilds = page.locator(".card", { hasText: "Subscriptions" }).locator("tbody tr td:first-child");
  await guilds.first().waitFor();
  assert.deepEqual((await guilds.allTextContents()).sort(), ["Guild 0", "Guild 1", guildId(2)].sort());
  await page.context().close();
});

test("with the keyboard alone: find a guild, open it, go to its sessions, open one", async () => {
  const page = await open(node, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  await page.locator("body").press("/");
  await page.keyboard.type("Guild 1");
  await page.locator("[role=status]", { hasText: "11 of 40" }).waitFor();
  await page.locator(`.table tr[data-id="${guildId(1)}"]`).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".title", { hasText: "Guild 10" }).waitFor();
  await page.getByRole("link", { name: "Its sessions" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "1 session is behind" }).waitFor();
  await page.locator(".table tr[data-id]").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "the client does not read" }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Events" }).locator("td", { hasText: "waits" }).count(), 4);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("closing a session needs a confirmation, and shows the account's other sessions after it", async () => {
  const id = node.session(7).id;
  const page = await open(node, { path: `sessions/${id}` });
  await page.getByRole("button", { name: "Close session" }).click();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await until("the dialog to close", async () => (await page.locator("dialog[open]").count()) === 0);
  assert.ok(!node.closed.has(id), "Escape answers no");
  await page.getByRole("button", { name: "Close session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close session" }).click();
  await page.locator(".title", { hasText: "This session is gone" }).waitFor();
  await page.getByText("None: its client has left").waitFor();
  assert.ok(node.closed.has(id));
  assert.ok(node.list().every(({ user_id }) => user_id !== accountId(7)));
  await page.context().close();
});

test("reload needs a confirmation and lists the changes", async () => {
  const page = await open(node, { path: "operations" });
  await page.getByRole("button", { name: "Reload configuration" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reload configuration" }).click();
  await page.locator(".notice", { hasText: "In force: log.level" }).waitFor();
  await page.context().close();
});

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

/** Scrolls a box frame by frame: how long the frames took, and what changed below it while it did. */
const scroll = (box) => box.evaluate((box, [frames, pixels]) => new Promise((done) => {
  const known = new Set(box.querySelectorAll("tr"));
  const changes = { texts: 0, attributes: 0, places: 0, created: 0 };
  const observer = new MutationObserver((records) => {
    for (const { type, addedNodes, attributeName } of records) {
      if (type === "characterData") changes.texts++;
      else if (type === "attributes") changes[attributeName === "style" ? "places" : "attributes"]++;
      else for (const node of addedNodes) if (!known.has(node)) changes.created++;
    }
  });
  observer.observe(box, { subtree: true, childList: true, characterData: true, attributes: true });
  const times = [];
  const step = (time) => {
    times.push(time);
    if (times.length <= frames) {
      box.scrollTop += pixels;
      requestAnimationFrame(step);
      return;
    }
    observer.disconnect();
    done({ changes, times: times.slice(1).map((each, index) => each - times[index]).sort((a, b) => a - b) });
  };
  requestAnimationFrame(step);
}), [FRAMES, PIXELS]);

/** Scrolls, and says what the page's thread did for one frame: times in milliseconds of its own CPU time, which other programs do not lengthen much. */
async function scrollCost(page, box) {
  const debug = await page.context().newCDPSession(page);
  await debug.send("Performance.enable", { timeDomain: "threadTicks" });
  const figures = async () => Object.fromEntries((await debug.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
  await box.evaluate((each) => { each.scrollTop = 0; });
  await page.waitForTimeout(500);
  const before = await figures();
  const { changes, times } = await scroll(box);
  const after = await figures();
  await debug.detach();
  const perFrame = (name, factor = 1) => ((after[name] - before[name]) * factor) / FRAMES;
  const [thread, script, style, layout] = ["TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration"].map((name) => perFrame(name, 1_000));
  const cost = { median: times[FRAMES / 2], thread, script, style, layout, layouts: perFrame("LayoutCount"), styles: perFrame("RecalcStyleCount"), changes };
  return { ...cost, text: `median frame ${cost.median.toFixed(1)} ms; thread ${thread.toFixed(1)} ms: script ${script.toFixed(1)}, style ${style.toFixed(1)}, layout ${layout.toFixed(1)}, the browser's painting ${(thread - script - style - layout).toFixed(1)}` };
}

test("10,000 guilds scroll: elements are kept, a row that comes changes its texts and place, nothing is laid out twice", async (t) => {
  const large = await Stub.start({ guilds: 10_000 });
  t.after(() => large.stop());
  const page = await open(large, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  const table = page.getByRole("region", { name: "Guilds" });
  const drawn = await table.locator("tr[data-id]").count();
  const columns = await table.locator("th").count();
  assert.ok(drawn < 60, `${drawn} rows are drawn`);
  // The first passes compile the script and shape the texts.
  await scroll(table);
  const cost = await scrollCost(page, table);
  console.log(`10,000 rows: ${cost.text}`);
  assert.equal(await table.locator("tr[data-id]").count(), drawn);

  // The floor of this browser and machine: as many static rows as pass, under the same styles and without a script.
  await table.evaluate((box, [count, row]) => {
    const floor = box.cloneNode(true);
    floor.id = "floor";
    const rows = [...floor.querySelectorAll("tbody tr")].slice(0, 20);
    floor.querySelector("tbody").style.height = `${count * row}px`;
    floor.querySelector("tbody").replaceChildren(...Array.from({ length: count }, (_, index) => {
      const copy = rows[index % rows.length].cloneNode(true);
      copy.style.top = `${index * row}px`;
      return copy;
    }));
    box.before(floor);
  }, [Math.ceil((FRAMES * PIXELS) / ROW) + 40, ROW]);
  const floor = await scrollCost(page, page.locator("#floor"));
  console.log(`static rows: ${floor.text}`);

  // Three live updates at most fall into the time of a scroll.
  const rows = Math.ceil((FRAMES * PIXELS) / ROW) + 3 * drawn;
  const { changes, layouts, styles } = cost;
  assert.equal(changes.created, 0, "elements are made while the table scrolls");
  assert.ok(changes.places > rows / 2 && changes.places <= rows, `${changes.places} rows changed their place`);
  assert.ok(changes.texts <= rows * columns, `${changes.texts} texts changed in ${rows} rows of ${columns}`);
  assert.ok(changes.attributes <= rows * 4, `${changes.attributes} attributes changed in ${rows} rows`);
  assert.ok(layouts <= 1.25 && styles <= 1.5, `${layouts} layouts and ${styles} style passes in a frame: something reads what it has just changed`);
  await page.context().close();
});

test("10,000 guilds: a live update changes the texts that differ, the last row is reached, one is found", async (t) => {
  const large = await Stub.start({ guilds: 10_000 });
  t.after(() => large.stop());
  const page = await open(large, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  const table = page.getByRole("region", { name: "Guilds" });
  const updated = await table.evaluate((box) => new Promise((done) => {
    const counts = { names: 0, rates: 0, elements: 0 };
    const observer = new MutationObserver((records) => {
      for (const { type, target } of records) {
        if (type !== "characterData") counts.elements += type === "childList" ? 1 : 0;
        else counts[target.parentNode.tagName === "A" ? "names" : "rates"]++;
      }
      if (counts.rates > 0) {
        observer.disconnect();
        done(counts);
      }
    });
    observer.observe(box.querySelector("tbody"), { subtree: true, childList: true, characterData: true });
  }));
  assert.deepEqual({ names: updated.names, elements: updated.elements }, { names: 0, elements: 0 });
  await table.evaluate((box) => { box.scrollTop = box.scrollHeight; });
  const last = table.locator("tr[data-index='9999']");
  await last.waitFor();
  // Once the table rests, its rows are in order again for those who hear the page.
  await until("order", () => table.locator("tbody tr").evaluateAll((rows) => rows.every((row, index) => index === 0 || Number(row.dataset.index) === Number(rows[index - 1].dataset.index) + 1)));
  // The focus follows its row, and leaves the elements when they become another row's.
  await last.focus();
  await table.evaluate((box) => { box.scrollTop = 0; });
  await until("the box to have the focus", () => table.evaluate((box) => document.activeElement === box));
  await page.keyboard.press("ArrowDown");
  await until("the first row to have the focus", () => table.evaluate(() => document.activeElement.dataset.index === "0"));
  await page.keyboard.press("End");
  await until("the last row to have the focus", () => table.evaluate(() => document.activeElement.dataset.index === "9999"));
  assert.equal(await table.evaluate((box) => document.activeElement.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom), true);
  await page.getByPlaceholder("Name or id").fill("Guild 9999");
  await page.locator("[role=status]", { hasText: "1 of 10,000" }).waitFor();
  assert.equal(await table.locator("tbody tr").count(), 1);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});
